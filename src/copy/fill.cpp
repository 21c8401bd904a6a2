#include "copy/fill.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ferry {

namespace {

constexpr std::uint32_t widest_unit = 4; // of the driver's calls

failure bad_descriptor(std::int32_t status, std::int32_t field, std::uint64_t limit = 0,
                       std::uint64_t value = 0) noexcept {
    return {status, FERRY_SIDE_DESCRIPTOR, field, limit, value};
}

failure read_pattern(const ferry_fill_desc &fill, fill_shape &shape) noexcept {
    const std::uint32_t size = fill.pattern_size;
    constexpr std::uint32_t room = sizeof fill.pattern;
    if (size == 0 || size > room || (size & (size - 1)) != 0)
        return bad_descriptor(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_PATTERN, room, size);
    if (size > widest_unit) return bad_descriptor(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_PATTERN, widest_unit, size);
    shape.unit = size;
    shape.value = fill.pattern[0];
    if (size == 2) {
        std::uint16_t value = 0;
        std::memcpy(&value, fill.pattern, sizeof value);
        shape.value = value;
    } else if (size == 4) {
        std::memcpy(&shape.value, fill.pattern, sizeof shape.value);
    }
    return {};
}

failure check_alignment(const fill_shape &shape) noexcept {
    struct {
        std::uint64_t value;
        std::int32_t side, field;
    } const numbers[] = {
        {shape.destination.span.first, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
        {shape.height > 1 || shape.depth > 1 ? shape.destination.row_pitch : 0, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_ROW_PITCH},
        {shape.width, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH},
    };
    for (const auto &number : numbers)
        if (number.value % shape.unit)
            return {FERRY_ERROR_ALIGNMENT, number.side, number.field, shape.unit, number.value};
    return {};
}

} // namespace

failure lay_out_fill(const ferry_fill_desc &fill, const copy_limits &limits, fill_shape &shape) noexcept {
    if (fill.flags) return bad_descriptor(FERRY_ERROR_FLAGS, FERRY_FIELD_FLAGS, 0, fill.flags);
    if (std::any_of(std::begin(fill.reserved), std::end(fill.reserved), [](std::uint64_t word) { return word != 0; }))
        return bad_descriptor(FERRY_ERROR_RESERVED, FERRY_FIELD_RESERVED);
    if (failure failed = read_pattern(fill, shape)) return failed;
    if (failure failed = check_place(fill.destination, FERRY_SIDE_DESTINATION, limits)) return failed;
    if (fill.destination.kind == FERRY_KIND_ARRAY)
        return {FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND};
    shape.width = fill.width;
    shape.height = std::max<std::uint64_t>(fill.height, 1);
    shape.depth = std::max<std::uint64_t>(fill.depth, 1);
    if (shape.width == 0) return {};
    const extent extent = {shape.width, shape.height, shape.depth};
    if (failure failed = lay_out_linear(fill.destination, FERRY_SIDE_DESTINATION, limits, extent, shape.destination))
        return failed;
    return check_alignment(shape);
}

failure settle_fill(const resolved_place &resolved, fill_shape &shape) noexcept {
    shape_end &end = shape.destination;
    if (resolved.kind == memory_kind::pageable) return {FERRY_ERROR_KIND, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND};
    if (failure failed = check_range(end, FERRY_SIDE_DESTINATION, resolved)) return failed;
    end.kind = resolved.kind;
    end.device = resolved.device;
    if (shape.depth > 1 && end.slice_height != shape.height)
        return {FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH, 1, shape.depth};
    shape.height *= shape.depth;
    shape.depth = 1;
    if (shape.height > 1 && end.row_pitch == shape.width) {
        shape.width *= shape.height;
        shape.height = 1;
    }
    return {};
}

} // namespace ferry
