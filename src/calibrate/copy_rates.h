// Measures single copies for a calibration: lines of memory and rows, by the driver and by kernels.
#pragma once

#include "calibrate/workspace.h"

namespace ferry {

// Lines of pinned and of pageable memory by the driver's calls.
error measure_driver_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Lines of pinned memory by kernels: how many blocks they need, and what each width of access reaches.
error measure_kernel_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Rows of each width with gaps on each side, by the driver's calls and by kernels.
error measure_rows(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// The fixed time of the driver's method for many rows.
error measure_many_rows(calibration_workspace &work, device_profile &profile) noexcept;

} // namespace ferry
