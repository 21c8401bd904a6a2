// Fills by ferry's own kernel.
#pragma once

#include "copy/fill.h"
#include "exec/kernel_launch.h"

namespace ferry {

// The fill's context must be current and able to access the memory at the device address `address`.
error run_kernel_fill(const driver_table &cu, kernel_set &kernels, const fill_shape &shape, std::uint64_t address,
                      std::uint32_t blocks, CUstream stream) noexcept;

} // namespace ferry
