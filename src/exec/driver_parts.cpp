#include "exec/driver_parts.h"

#include "exec/driver_fill.h"

namespace ferry {

bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept {
    const auto leaves = [&](const shape_end &end) noexcept {
        if (end.array || !is_host(end.kind)) return false;
        const std::uint64_t border = ranges.end_of_piece(end.span.first);
        return border != 0 && border <= end.span.last;
    };
    return leaves(shape.source) || leaves(shape.destination);
}

namespace {

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
