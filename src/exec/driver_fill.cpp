#include "exec/driver_fill.h"

#include <cstring>

#include "copy/split.h"
#include "driver/result.h"

namespace ferry {

namespace {

struct fill_call {
    const fill_shape &shape;
    std::uint64_t address; // the device address
    CUstream stream;

    // Calls one of the two entry points for a unit size, which receive the pattern as a number.
    template <class Value, class Line, class Rows> error by(const Line &line, const Rows &rows) const noexcept {
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
    if (!is_pinned(kind_to_context(facts)))
        return {FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, numbers::value, 0, address};
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

error set_fill_node(const driver_table &cu, const fill_shape &shape, std::uint64_t address, CUcontext context,
                    graph_target &target) noexcept {
    CUDA_MEMSET_NODE_PARAMS call = {};
    call.dst = address;
    call.elementSize = shape.unit;
    std::memcpy(&call.value, shape.pattern, shape.unit); // little-endian, as all processors of GPUs
    call.width = shape.width / shape.unit;
    call.height = shape.height;
    call.pitch = shape.height > 1 ? shape.destination.row_pitch : 0;
    const error failed = put_node(cu.cuGraphAddMemsetNode, cu.cuGraphExecMemsetNodeSetParams, call, context, target);
    if (!is_change_refused(failed, target) || shape.height == 1) return failed;
    return replace(failed.status, refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_EXTENT, FERRY_FIELD_HEIGHT,
                                         numbers::at_most, 1, shape.height));
}

namespace {

// The registered pieces that the instance knows, in the form that for_each_part expects.
struct known_pieces {
    const host_ranges &ranges;
    std::uint64_t operator()(std::uint64_t address) const noexcept { return ranges.end_of_piece(address); }
};

// A fill is split like a copy whose destination is its only host end.
shape box_of(const fill_shape &whole) noexcept {
    shape box = {};
    box.source.kind = memory_kind::device;
    box.destination = whole.destination;
    box.width = whole.width;
    box.height = whole.height;
    box.depth = whole.depth;
    return box;
}

} // namespace

error count_fill_parts(const host_ranges &ranges, const fill_shape &whole, const error &refused,
                       std::uint32_t &parts) noexcept {
    const shape box = box_of(whole);
    parts = 1;
    if (!crosses_border(box, ranges)) return {};
    parts = 0;
    const known_pieces pieces = {ranges};
    return for_each_part(box, pieces, [&](const shape &part) noexcept -> error {
        ++parts;
        const bool is_registered = pieces(part.destination.span.first) != 0;
        return is_registered && part.width % whole.unit == 0 ? ok : refused;
    });
}

error run_fill_in_parts(const driver_table &cu, const host_ranges &ranges, const fill_shape &whole,
                        const error &refused, CUstream stream) noexcept {
    const shape box = box_of(whole);
    if (!crosses_border(box, ranges)) return refused;
    std::uint32_t parts;
    if (error failed = count_fill_parts(ranges, whole, refused, parts)) return failed;
    return for_each_part(box, known_pieces{ranges}, [&](const shape &part) noexcept -> error {
        fill_shape fill = whole;
        fill.destination = part.destination;
        fill.width = part.width;
        fill.height = part.height;
        address_facts facts;
        std::uint64_t address = part.destination.span.first;
        if (error failed = look_up_address(cu, address, address_query::everything, facts)) return failed;
        if (error failed = find_pinned_on_device(facts, address)) return failed;
        return run_driver_fill(cu, fill, address, stream);
    });
}

} // namespace ferry
