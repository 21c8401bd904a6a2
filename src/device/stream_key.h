// Identifies a stream, so that later work on the same stream can be recognised.
#pragma once

#include "device/capture_mode.h"
#include "device/context_name.h"

namespace ferry {

// After a stream is destroyed, a new stream may get the same handle, but not the same number. Older drivers report no
// number.
struct stream_key {
    context_name context;
    const void *stream;
    unsigned long long number; // 0: not reported by the driver
    bool operator==(const stream_key &) const noexcept = default;
};

// Identifies a stream of `context`. For a default stream, the context must be current.
error name_stream(const driver_table &cu, CUcontext context, CUstream stream, stream_key &key) noexcept;

} // namespace ferry
