// Measures each kind of copy on a device, for its profile.
#pragma once

#include "base/host.h"
#include "device/kernels.h"
#include "driver/table.h"
#include "plan/profile.h"
#include "staging/engine.h"

namespace ferry {

struct calibration_options {
    const allocator &memory;
    kernel_set *kernels = nullptr;     // measured if they can be loaded
    staging_engine *staging = nullptr; // measured on `device`, in the current `context`
    int device = 0;
    CUcontext context = nullptr;
    int multiprocessors = 1;
    std::uint64_t budget_ns = 1'500'000'000; // for everything except the allocations
};

// The device's context must be current. Numbers that are not measured stay unchanged: the numbers of peers, and without
// kernels all numbers about kernels. Works on its own stream and memory, which it always releases. After a failure,
// `profile` is unchanged.
error calibrate(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept;

} // namespace ferry
