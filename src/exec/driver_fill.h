// The driver's own fill: one memset of one or two dimensions.
#pragma once

#include "copy/fill.h"
#include "driver/table.h"

namespace ferry {

// The fill's context must be current, and the driver must have a call for the shape. For host memory, the address is
// that of the host.
error run_driver_fill(const driver_table &cu, const fill_shape &shape, CUstream stream) noexcept;

} // namespace ferry
