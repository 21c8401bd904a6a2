#include "copy/fill.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace ferry {

namespace {

error read_pattern(const ferry_fill_desc &fill, fill_shape &shape) noexcept {
    const std::uint32_t size = fill.pattern_size;
    constexpr std::uint32_t room = sizeof fill.pattern;
    if (size == 0 || size > room || (size & (size - 1)) != 0)
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, numbers::power,
                      room, size);
    std::memcpy(shape.pattern, fill.pattern, sizeof shape.pattern);
    // A wide pattern that repeats a narrower pattern, such as all zeros, is treated as the narrower pattern, which the
    // driver can fill.
    constexpr std::uint32_t narrow = max_unit_of_driver;
    const bool is_narrow = size <= narrow || std::memcmp(shape.pattern, shape.pattern + narrow, size - narrow) == 0;
    shape.unit = is_narrow ? std::min(size, narrow) : size;
    return {};
}

error check_alignment(const fill_shape &shape, std::uint32_t pattern_size) noexcept {
    struct {
        std::uint64_t value;
        std::int32_t side, field;
    } const all[] = {
        {shape.destination.span.first, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS},
        {shape.height > 1 || shape.depth > 1 ? shape.destination.row_pitch : 0, FERRY_SIDE_DESTINATION,
         FERRY_FIELD_ROW_PITCH},
        {shape.width, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH},
    };
    for (const auto &number : all)
        if (number.value % pattern_size)
            return refuse(FERRY_ERROR_ALIGNMENT, number.side, number.field, numbers::multiple, pattern_size,
                          number.value);
    return {};
}

void fold(std::uint64_t max_pitch, fill_shape &shape) noexcept {
    shape_end &end = shape.destination;
    if (shape.depth > 1 && end.slice_height == shape.height) {
        shape.height *= shape.depth;
        shape.depth = 1;
    }
    const auto rows_are_one = [&] { return shape.height == 1 || end.row_pitch == shape.width; };
    if (shape.depth > 1 && rows_are_one()) {
        const std::uint64_t pitch = end.row_pitch * end.slice_height;
        if (pitch > max_pitch) return; // the driver rejects such a pitch
        end.row_pitch = pitch;
        shape.width *= shape.height;
        shape.height = shape.depth;
        shape.depth = 1;
    }
    if (shape.depth == 1 && rows_are_one()) {
        shape.width *= shape.height;
        shape.height = 1;
    }
    if (shape.depth == 1) end.slice_height = shape.height;
}

} // namespace

error validate_fill_fields(const ferry_fill_desc &fill, const copy_limits &limits, fill_shape &shape) noexcept {
    if (fill.reserved0 ||
        std::any_of(std::begin(fill.reserved), std::end(fill.reserved), [](std::uint64_t word) { return word != 0; }))
        return refuse(FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED);
    if (error failed = read_pattern(fill, shape)) return failed;
    if (error failed = check_place(fill.destination, FERRY_SIDE_DESTINATION, limits)) return failed;
    if (fill.destination.kind >= FERRY_KIND_ARRAY)
        return refuse_signed(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION, FERRY_FIELD_KIND, numbers::up_to,
                             FERRY_KIND_DEVICE, fill.destination.kind);
    shape.width = fill.width;
    shape.height = std::max<std::uint64_t>(fill.height, 1);
    shape.depth = std::max<std::uint64_t>(fill.depth, 1);
    if (shape.width == 0) return {};
    const extent extent = {shape.width, shape.height, shape.depth};
    if (error failed = validate_linear(fill.destination, FERRY_SIDE_DESTINATION, limits, extent, shape.destination))
        return failed;
    return check_alignment(shape, fill.pattern_size);
}

error validate_fill_bounds(const resolved_place &resolved, const copy_limits &limits, fill_shape &shape) noexcept {
    shape_end &end = shape.destination;
    if (resolved.kind == memory_kind::pageable)
        return refuse_value(FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, end.span.first);
    if (error failed = check_range(end, FERRY_SIDE_DESTINATION, resolved)) return failed;
    end.kind = resolved.kind;
    end.device = resolved.device;
    fold(limits.max_pitch, shape);
    return {};
}

} // namespace ferry
