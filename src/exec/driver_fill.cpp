#include "exec/driver_fill.h"

#include <cstring>

#include "driver/result.h"

namespace ferry {

namespace {

struct fill_call {
    const fill_shape &shape;
    std::uint64_t address; // the device address
    CUstream stream;

    // Calls one of the two entry points for a unit size, which receive the pattern as a number.
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

error find_pinned_on_device(const address_facts &facts, std::uint64_t &address) noexcept {
    if (!is_pinned(kind_to_context(facts))) return {FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND};
    address = facts.device_address;
    return {};
}

const char *driver_fill_name(const fill_shape &shape) noexcept {
    const bool is_line = shape.height == 1;
    switch (shape.unit) {
    case 1:
        return is_line ? "cuMemsetD8Async" : "cuMemsetD2D8Async";
    case 2:
        return is_line ? "cuMemsetD16Async" : "cuMemsetD2D16Async";
    default:
        return is_line ? "cuMemsetD32Async" : "cuMemsetD2D32Async";
    }
}

error run_driver_fill(const driver_table &cu, const fill_shape &shape, std::uint64_t address,
                      CUstream stream) noexcept {
    const fill_call call = {shape, address, stream};
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
