// Stream capture: a scope in which the calling thread may make driver calls that would otherwise break captures of
// other threads, and queries whether a stream is being captured.
#pragma once

#include "device/contexts.h"

namespace ferry {

class relaxed_capture_mode {
public:
    explicit relaxed_capture_mode(const driver_table &cu) noexcept
        : cu_(cu), result_(cu.cuThreadExchangeStreamCaptureMode(&mode_)) {}
    ~relaxed_capture_mode() {
        if (entered()) cu_.cuThreadExchangeStreamCaptureMode(&mode_);
    }
    relaxed_capture_mode(const relaxed_capture_mode &) = delete;
    relaxed_capture_mode &operator=(const relaxed_capture_mode &) = delete;

    bool entered() const noexcept { return result_ == CUDA_SUCCESS; }
    error why() const noexcept { return to_error(result_); }

private:
    const driver_table &cu_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // after the exchange: the previous mode
    const call_result result_;
};

// Queries whether a stream is being captured. NULL and the legacy stream cannot be captured. The per-thread stream is
// the per-thread stream of the current context. If the query fails, the caller must enqueue nothing: work that is meant
// to run once might become part of a graph.
inline error query_capture(const driver_table &cu, CUstream stream, bool &is_captured) noexcept {
    is_captured = false;
    if (!stream || stream == CU_STREAM_LEGACY || !cu.cuStreamIsCapturing) return {};
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const call_result result = cu.cuStreamIsCapturing(stream, &status);
    is_captured = result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return to_error(result);
}

// Returns FERRY_ERROR_CAPTURE for a stream that is being captured.
inline error refuse_captured(const driver_table &cu, CUstream stream) noexcept {
    bool is_captured = false;
    if (error failed = query_capture(cu, stream, is_captured)) return failed;
    return {.status = is_captured ? FERRY_ERROR_CAPTURE : FERRY_SUCCESS};
}

// Whether a stream is being captured, for callers that then rely on what the program states. False if the query fails.
inline bool is_being_captured(const driver_table &cu, CUstream stream) noexcept {
    bool is_captured = false;
    return !query_capture(cu, stream, is_captured) && is_captured;
}

// Same as refuse_captured, for calls that record an event and query it later. Default streams are the default streams
// of the current context.
inline error refuse_events_under_capture(const driver_table &cu, CUstream stream) noexcept {
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    const status_code status = call_optional(cu.cuStreamIsCapturing, stream, &capturing);
    // For the legacy stream, the driver returns the second result while a stream that synchronises with it is being
    // captured.
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE || status == to_status(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT))
        return {.status = FERRY_ERROR_CAPTURE};
    return {.status = status};
}

} // namespace ferry
