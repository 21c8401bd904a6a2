// Lets the calling thread do for a while what captures on other threads would forbid it, and that would break them.
#pragma once

#include "driver/result.h"
#include "driver/table.h"

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

} // namespace ferry
