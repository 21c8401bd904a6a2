// Measures copies of many small pieces for a calibration.
#pragma once

#include "calibrate/workspace.h"

namespace ferry {

// Measures copies in which each piece has its own call.
error measure_calls(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Measures copies of all pieces by one batch call of the driver. A driver with the entry point may still reject the
// call. Then the number stays unchanged. If the rejection killed the context, the stream reports it.
error measure_batches(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// Measures copies of all pieces in one launch. Each time, the host writes the table and the device reads it.
error measure_kernel_pieces(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;

} // namespace ferry
