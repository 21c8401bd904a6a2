// Measures copies of many small pieces for a calibration.
#pragma once

#include "calibrate/workspace.h"

namespace ferry {

// Each piece copied by its own call.
error measure_calls(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// All pieces copied by one of the driver's batch calls. A driver with the entry point may still refuse the call. Then
// the number stays as it was. If the refusal broke the context, the stream reports it.
error measure_batches(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;
// All pieces copied by one launch. Each time the host writes the table and the device reads it.
error measure_kernel_pieces(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept;

} // namespace ferry
