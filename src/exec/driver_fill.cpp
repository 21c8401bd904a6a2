#include "exec/driver_fill.h"

#include <cstring>

#include "driver/result.h"

namespace ferry {

namespace {

struct fill_call {
    const fill_shape &shape;
    std::uint64_t address; // as the device sees it
    CUstream stream;

    // Calls one of a unit's two entry points, which take the pattern as a number.
    template <class Value, class Line, class Rows> error by(Line *line, Rows *rows) const noexcept {
        Value value = 0;
        std::memcpy(&value, shape.pattern, sizeof value);
        const std::uint64_t units = shape.width / shape.unit;
        return {.status = shape.height == 1 ? call_optional(line, address, value, units, stream)
                                            : call_optional(rows, address, shape.destination.row_pitch, value, units,
                                                            shape.height, stream)};
    }
};

} // namespace

error run_driver_fill(const driver_table &cu, const fill_shape &shape, CUstream stream) noexcept {
    fill_call call = {shape, shape.destination.span.first, stream};
    if (shape.destination.kind == memory_kind::pinned) { // its device address may differ from the host address
        address_facts facts;
        if (error failed = look_up_address(cu, call.address, address_query::everything, facts)) return failed;
        if (!is_pinned(kind_to_context(facts))) return {FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND};
        call.address = facts.device_address;
    }
    switch (shape.unit) {
    case 1:
        return call.by<std::uint8_t>(cu.cuMemsetD8Async, cu.cuMemsetD2D8Async);
    case 2:
        return call.by<std::uint16_t>(cu.cuMemsetD16Async, cu.cuMemsetD2D16Async);
    default:
        return call.by<std::uint32_t>(cu.cuMemsetD32Async, cu.cuMemsetD2D32Async);
    }
}

} // namespace ferry
