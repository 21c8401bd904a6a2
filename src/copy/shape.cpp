#include "copy/shape.h"

#include "base/checked.h"
#include "copy/overlap.h"

namespace ferry {

namespace {

failure check_array(const ferry_place &place, std::int32_t side, const copy_layout &copy,
                    const array_facts &array) noexcept {
    if (array.element_size == 0) return {}; // the driver is the judge of formats without elements
    struct {
        std::uint64_t origin, extent, limit;
        std::int32_t field;
    } const axes[] = {{place.x, copy.width, array.width, FERRY_FIELD_X},
                      {place.y, copy.height, array.height, FERRY_FIELD_Y},
                      {place.z, copy.depth, array.depth, FERRY_FIELD_Z}};
    for (const auto &axis : axes) {
        const checked end = checked(axis.origin) + axis.extent;
        if (end.overflowed()) return {FERRY_ERROR_OVERFLOW, side, axis.field, axis.limit, axis.origin};
        if (end.value() > axis.limit) return {FERRY_ERROR_OUT_OF_BOUNDS, side, axis.field, axis.limit, end.value()};
    }
    if (place.x % array.element_size)
        return {FERRY_ERROR_ARRAY_FORMAT, side, FERRY_FIELD_X, array.element_size, place.x};
    if (copy.width % array.element_size)
        return {FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, array.element_size, copy.width};
    return {};
}

failure check_range(const end_layout &end, std::int32_t side, const resolved_place &resolved) noexcept {
    if (!resolved.range_size) return {};
    const std::uint64_t range_last = resolved.range_start + (resolved.range_size - 1);
    if (end.span.first < resolved.range_start)
        return {FERRY_ERROR_OUT_OF_BOUNDS, side, FERRY_FIELD_ADDRESS, resolved.range_start, end.span.first};
    if (end.span.last > range_last)
        return {FERRY_ERROR_OUT_OF_BOUNDS, side, FERRY_FIELD_ADDRESS, range_last + 1, end.span.last + 1};
    return {};
}

failure check_end(const ferry_place &place, std::int32_t side, const copy_layout &copy, const end_layout &end,
                  const resolved_place &resolved) noexcept {
    return end.linear ? check_range(end, side, resolved) : check_array(place, side, copy, resolved.array);
}

shape_end make_end(const ferry_place &place, const end_layout &layout, const resolved_place &resolved) noexcept {
    shape_end end;
    end.kind = resolved.kind;
    end.device = resolved.device;
    if (layout.linear) {
        end.address = layout.span.first;
        end.row_pitch = layout.row_pitch;
        end.slice_height = layout.slice_height;
    } else {
        end.array = place.array;
        end.x = place.x;
        end.y = place.y;
        end.z = place.z;
    }
    return end;
}

bool rows_are_tight(const shape_end &end, const shape &shape) noexcept {
    return shape.height == 1 || end.row_pitch == shape.width;
}

// Folds a dimension away wherever both ends lie tight in it. A slice's pitch must still be one that the driver takes.
void collapse(shape &shape, std::uint64_t max_pitch) noexcept {
    shape_end &source = shape.source, &destination = shape.destination;
    if (source.array || destination.array) return;
    if (shape.depth > 1 && source.slice_height == shape.height && destination.slice_height == shape.height) {
        shape.height *= shape.depth;
        shape.depth = 1;
    }
    if (!rows_are_tight(source, shape) || !rows_are_tight(destination, shape)) return;
    const std::uint64_t source_pitch = source.row_pitch * source.slice_height;
    const std::uint64_t destination_pitch = destination.row_pitch * destination.slice_height;
    if (shape.depth > 1 && (source_pitch > max_pitch || destination_pitch > max_pitch)) return;
    source.row_pitch = source_pitch;
    destination.row_pitch = destination_pitch;
    source.slice_height = destination.slice_height = shape.depth;
    shape.width *= shape.height;
    shape.height = shape.depth;
    shape.depth = 1;
}

// A tight end of a copy that did not collapse takes its width for a pitch, and that may be too long a stride.
failure check_strides(const shape &shape, std::uint64_t max_pitch) noexcept {
    if (shape.height == 1 && shape.depth == 1) return {};
    if (shape.source.row_pitch > max_pitch)
        return {FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH, max_pitch, shape.source.row_pitch};
    if (shape.destination.row_pitch > max_pitch)
        return {FERRY_ERROR_PITCH, FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, max_pitch,
                shape.destination.row_pitch};
    return {};
}

} // namespace

failure make_shape(const ferry_copy_desc &copy, const copy_layout &layout, const resolved_place &source,
                   const resolved_place &destination, const copy_limits &limits, shape &shape) noexcept {
    if (failure failed = check_end(copy.source, FERRY_SIDE_SOURCE, layout, layout.source, source)) return failed;
    if (failure failed = check_end(copy.destination, FERRY_SIDE_DESTINATION, layout, layout.destination, destination))
        return failed;
    const std::uint32_t source_element = source.array.element_size, element = destination.array.element_size;
    if (source_element && element && source_element != element)
        return {FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY, source_element, element};
    if (ends_overlap(copy, layout)) return {FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS};

    shape.source = make_end(copy.source, layout.source, source);
    shape.destination = make_end(copy.destination, layout.destination, destination);
    shape.width = layout.width;
    shape.height = layout.height;
    shape.depth = layout.depth;
    collapse(shape, limits.max_pitch);
    return check_strides(shape, limits.max_pitch);
}

} // namespace ferry
