// Measures copies of arrays for a calibration.
#pragma once

#include "calibrate/workspace.h"

namespace ferry {

// Measures copies of boxes from the array to linear device memory, by the driver's calls and by kernels.
error measure_arrays(calibration_workspace &work, device_profile &profile) noexcept;

} // namespace ferry
