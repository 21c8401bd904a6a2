// Measures single copies for a calibration: contiguous copies and rows, by the driver and by kernels.
#pragma once

#include "calibrate/workspace.h"

namespace ferry {

// Measures contiguous copies of pinned and of pageable memory by the driver's calls.
error measure_driver_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Measures contiguous copies of pinned memory by kernels: how many blocks they need, and the rate of each access width.
error measure_kernel_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Measures rows of each width, with gaps at either end or both ends, by the driver's calls and by kernels.
error measure_rows(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Measures the fixed time of the driver's method for many rows.
error measure_many_rows(calibration_workspace &work, device_profile &profile) noexcept;

} // namespace ferry
