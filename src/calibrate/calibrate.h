// Measures what a device does with each kind of copy, for its profile.
#pragma once

#include "base/host.h"
#include "device/kernels.h"
#include "driver/table.h"
#include "plan/profile.h"
#include "staging/engine.h"

namespace ferry {

struct calibration_options {
    const allocator &memory;
    kernel_set *kernels = nullptr;     // measured too, if they can be loaded
    staging_engine *staging = nullptr; // likewise, and `device` by it in the current context, which is `context`
    int device = 0;
    CUcontext context = nullptr;
    int multiprocessors = 1;
    std::uint64_t budget_ns = 1'500'000'000; // for all but the allocations
};

// The device's context must be current. What is not measured keeps its number: peers, and all about kernels where there are
// none. Works on a stream and in memory of its own, which are gone again whatever happens; `profile` is unchanged
// after a failure.
error calibrate(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept;

} // namespace ferry
