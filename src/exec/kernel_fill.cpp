#include "exec/kernel_fill.h"

#include <cstring>

namespace ferry {

error run_kernel_fill(const driver_table &cu, kernel_set &kernels, const fill_shape &shape, std::uint64_t address,
                      std::uint32_t blocks, CUstream stream) noexcept {
    const shape_end &to = shape.destination;
    kernel_fill fill = {.destination = {address, to.row_pitch, to.row_pitch * to.slice_height},
                        .width = shape.width,
                        .height = shape.height,
                        .depth = shape.depth,
                        .pattern = {},
                        .pattern_size = shape.unit};
    std::memcpy(fill.pattern, shape.pattern, sizeof fill.pattern);
    return launch_fill(cu, kernels, fill, blocks, stream);
}

} // namespace ferry
