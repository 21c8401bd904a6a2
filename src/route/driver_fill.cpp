#include "route/driver_fill.h"

#include "driver/result.h"

namespace ferry {

namespace {

// One unit's pair of calls.
template <class Line, class Rows>
std::int32_t fill(Line *line, Rows *rows, const fill_shape &shape, CUstream stream) noexcept {
    const std::uint64_t address = shape.destination.span.first, units = shape.width / shape.unit;
    if (shape.height == 1) return call_optional(line, address, shape.value, units, stream);
    return call_optional(rows, address, shape.destination.row_pitch, shape.value, units, shape.height, stream);
}

} // namespace

failure run_driver_fill(const driver_table &cu, const fill_shape &shape, CUstream stream) noexcept {
    switch (shape.unit) {
    case 1:
        return {.status = fill(cu.cuMemsetD8Async, cu.cuMemsetD2D8Async, shape, stream)};
    case 2:
        return {.status = fill(cu.cuMemsetD16Async, cu.cuMemsetD2D16Async, shape, stream)};
    default:
        return {.status = fill(cu.cuMemsetD32Async, cu.cuMemsetD2D32Async, shape, stream)};
    }
}

} // namespace ferry
