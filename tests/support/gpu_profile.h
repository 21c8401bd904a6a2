// Makes the software driver act like a GPU. ferry knows that kernels and staging are slow on the software driver, and
// copies by the driver's calls. Tests of the other routes need the plans for a GPU.
#pragma once

#include "ferry/ferry.h"
#include "ferry/ferry_devices.h"
#include "plan/profile.h"
#include "submit/instance.h"

namespace ferry::test {

// Makes ferry plan for devices of the software driver as for a GPU that was not measured. Has no effect on a GPU.
inline void plan_as_on_a_gpu(ferry_instance *instance) {
    for (int device = 0; instance && device < instance->report.device_count; ++device)
        if (instance->devices[device].info.is_software)
            instance->profiles.use(device, &built_in_profile(ferry_device_info{}));
}

} // namespace ferry::test
