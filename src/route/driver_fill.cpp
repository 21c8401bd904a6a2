#include "route/driver_fill.h"

#include "driver/result.h"

namespace ferry {

namespace {

struct fill_call {
    const fill_shape &shape;
    std::uint64_t address; // the device's
    CUstream stream;

    // One unit's pair of entry points.
    template <class Line, class Rows> failure by(Line *line, Rows *rows) const noexcept {
        const std::uint64_t units = shape.width / shape.unit;
        return {.status = shape.height == 1 ? call_optional(line, address, shape.value, units, stream)
                                            : call_optional(rows, address, shape.destination.row_pitch, shape.value,
                                                            units, shape.height, stream)};
    }
};

} // namespace

failure run_driver_fill(const driver_table &cu, const fill_shape &shape, CUstream stream) noexcept {
    fill_call call = {shape, shape.destination.span.first, stream};
    if (shape.destination.kind == memory_kind::pinned) { // whose address may be another one to the device
        address_facts facts;
        if (failure failed = look_up_address(cu, call.address, ask::everything, facts)) return failed;
        if (kind_to_context(facts) != memory_kind::pinned)
            return {FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND};
        call.address = facts.device_address;
    }
    switch (shape.unit) {
    case 1:
        return call.by(cu.cuMemsetD8Async, cu.cuMemsetD2D8Async);
    case 2:
        return call.by(cu.cuMemsetD16Async, cu.cuMemsetD2D16Async);
    default:
        return call.by(cu.cuMemsetD32Async, cu.cuMemsetD2D32Async);
    }
}

} // namespace ferry
