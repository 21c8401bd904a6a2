// The driver's own fill: one memset call with one or two dimensions.
#pragma once

#include "copy/fill.h"
#include "driver/table.h"

namespace ferry {

// Finds the device address of pinned memory, which may differ from its host address. `facts` must have been queried in
// the fill's context.
error find_pinned_on_device(const address_facts &facts, std::uint64_t &address) noexcept;

// Returns the name of the call that run_driver_fill makes.
const char *driver_fill_name(const fill_shape &shape) noexcept;

// Fills the memory at the device address `address`. The fill's context must be current, and the driver must have a call
// for the shape.
error run_driver_fill(const driver_table &cu, const fill_shape &shape, std::uint64_t address, CUstream stream) noexcept;

} // namespace ferry
