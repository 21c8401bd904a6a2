// Measures what a device does with each kind of copy, for its profile.
#pragma once

#include "base/host.h"
#include "copy/shape.h"
#include "driver/table.h"
#include "plan/profile.h"

namespace ferry {

// How ferry's kernels copy a shape with so many blocks; none where they are not loaded.
struct calibration_kernels {
    failure (*launch)(void *user, const shape &shape, unsigned blocks, CUstream stream) noexcept = nullptr;
    void *user = nullptr;
};

struct calibration_options {
    const allocator &memory;
    calibration_kernels kernels;
    int multiprocessors = 1;
    std::uint64_t budget_ns = 1'500'000'000; // for all but the allocations
};

// The device's context must be current. What is not measured keeps its number: peers, and all about kernels where there are
// none. Works on a stream and in memory of its own, which are gone again whatever happens; `profile` is unchanged
// after a failure.
failure calibrate(const driver_table &cu, const calibration_options &options, device_profile &profile) noexcept;

} // namespace ferry
