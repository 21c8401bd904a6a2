// What captures forbid: a scope in which the calling thread may do what would break those of other threads, and whether a
// stream is being captured.
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
    failure why() const noexcept { return to_failure(result_); }

private:
    const driver_table &cu_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // then: what it was
    const CUresult result_;
};

// False where the driver does not tell, and for NULL and the legacy stream, which cannot be captured. Of the per-thread
// stream it is the current context's.
inline bool is_being_captured(const driver_table &cu, CUstream stream) noexcept {
    if (!stream || stream == CU_STREAM_LEGACY || !cu.cuStreamIsCapturing) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cu.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

} // namespace ferry
