// Measures synchronous staged copies between pageable memory and a device, for the device's profile.
#pragma once

#include "calibrate/stopwatch.h"
#include "staging/engine.h"

namespace ferry {

// The memory and the stream used for the measurement, in the current context.
struct staging_ground {
    staging_engine &engine; // prepared for the device
    int device;
    CUcontext context;
    CUstream stream;
    std::uint64_t on_device;
    std::byte *pageable, *pinned;
    std::uint64_t size; // bytes of each of the three buffers: 2 MiB or more
};

error calibrate_staging(const driver_table &cu, const staging_ground &ground, device_profile &profile) noexcept;

} // namespace ferry
