// The second half of the validation, against the memory, and the reduction of a copy to its simplest form.
#include "base/checked.h"
#include "copy/shape.h"

namespace ferry {

namespace {

// Not inlined: most copies are contiguous and do not need it.
[[gnu::noinline]] error check_array(const shape_end &end, std::int32_t side, const shape &shape,
                                    const array_facts &array) noexcept {
    if (array.element_size == 0) return {}; // the driver checks formats without elements
    struct {
        std::uint64_t origin, extent, limit;
        std::int32_t field;
    } const axes[] = {{end.x, shape.width, array.width, FERRY_FIELD_X},
                      {end.y, shape.height, array.height, FERRY_FIELD_Y},
                      {end.z, shape.depth, array.depth, FERRY_FIELD_Z}};
    for (const auto &axis : axes) {
        std::uint64_t end = 0;
        if (!add(axis.origin, axis.extent, end))
            return refuse(FERRY_ERROR_OVERFLOW, side, axis.field, numbers::at_most, axis.limit, axis.origin);
        if (end > axis.limit) return refuse(FERRY_ERROR_OUT_OF_BOUNDS, side, axis.field, numbers::end, axis.limit, end);
    }
    if (end.x % array.element_size)
        return refuse(FERRY_ERROR_ARRAY_FORMAT, side, FERRY_FIELD_X, numbers::element, array.element_size, end.x);
    if (shape.width % array.element_size)
        return refuse(FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, numbers::element,
                      array.element_size, shape.width);
    return {};
}

} // namespace

error check_range(const shape_end &end, std::int32_t side, const resolved_place &resolved) noexcept {
    if (!resolved.range_size) return {};
    const std::uint64_t range_last = resolved.range_start + (resolved.range_size - 1);
    if (end.span.first < resolved.range_start)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, side, FERRY_FIELD_ADDRESS, numbers::begin, resolved.range_start,
                      end.span.first);
    if (end.span.last > range_last)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, side, FERRY_FIELD_ADDRESS, numbers::end, range_last + 1,
                      end.span.last + 1);
    return {};
}

namespace {

error check_end(const shape_end &end, std::int32_t side, const shape &shape, const resolved_place &resolved) noexcept {
    return end.array ? check_array(end, side, shape, resolved.array) : check_range(end, side, resolved);
}

error check_formats(const resolved_ends &ends) noexcept {
    const std::uint32_t source = ends.source.array.element_size, destination = ends.destination.array.element_size;
    if (!source || !destination || source == destination) return {};
    return refuse(FERRY_ERROR_ARRAY_FORMAT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ARRAY, numbers::element, source,
                  destination);
}

// For a copy between two layers of one array of 2D layers, the driver reads the destination layer instead of the source
// layer, and reports success (cuMemcpy3D, its peer, async and batch forms; CUDA 13.0, H200). ferry rejects such copies
// until another route can serve them.
[[gnu::noinline]] error check_layers(const shape &shape, const array_facts &array) noexcept {
    const shape_end &source = shape.source, &destination = shape.destination;
    if (source.array != destination.array || !array.is_layered || !array.has_rows || source.z == destination.z)
        return {};
    return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION, FERRY_FIELD_Z, numbers::equal, source.z,
                  destination.z);
}

bool rows_are_tight(const shape_end &end, const shape &shape) noexcept {
    return shape.height == 1 || end.row_pitch == shape.width;
}

// Turns slices of one row into rows. At a linear end opposite layers of a 1D array, the driver uses the pitch instead
// of the slice height (CUDA 13.0, H200), so the slice height becomes the pitch.
void fold_slices_of_one_row(const shape &shape, std::uint64_t max_pitch, shape_end &end) noexcept {
    if (end.array || shape.height > 1 || shape.depth == 1) return;
    std::uint64_t pitch = 0;
    if (!multiply_add(end.row_pitch, end.slice_height, 0, pitch) || pitch > max_pitch) return;
    end.row_pitch = pitch;
    end.slice_height = 1;
}

// Folds each dimension in which both ends are tight. The resulting pitch must be within the driver's limit.
[[gnu::noinline]] void collapse(shape &shape, std::uint64_t max_pitch) noexcept {
    shape_end &source = shape.source, &destination = shape.destination;
    fold_slices_of_one_row(shape, max_pitch, source);
    fold_slices_of_one_row(shape, max_pitch, destination);
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

// A tight end of a copy that was not folded has its width as its pitch, which may exceed the driver's maximum. The same
// applies to the slice pitch of a linear end opposite layers of a 1D array.
[[gnu::noinline]] error check_strides(const shape &shape, const resolved_ends &resolved,
                                      std::uint64_t max_pitch) noexcept {
    if (shape.is_line()) return {};
    const auto needs_slices_as_rows = [](const resolved_place &place) noexcept {
        return place.array.element_size && place.array.is_layered && !place.array.has_rows;
    };
    const auto check_slices = [&](const shape_end &end, std::int32_t side) noexcept -> error {
        if (end.array || shape.depth == 1 || end.slice_height == 1) return {};
        return refuse(FERRY_ERROR_PITCH, side, FERRY_FIELD_SLICE_HEIGHT, numbers::at_most, max_pitch / end.row_pitch,
                      end.slice_height);
    };
    if (needs_slices_as_rows(resolved.destination))
        if (error failed = check_slices(shape.source, FERRY_SIDE_SOURCE)) return failed;
    if (needs_slices_as_rows(resolved.source))
        if (error failed = check_slices(shape.destination, FERRY_SIDE_DESTINATION)) return failed;
    if (shape.source.row_pitch > max_pitch)
        return refuse(FERRY_ERROR_PITCH, FERRY_SIDE_SOURCE, FERRY_FIELD_ROW_PITCH, numbers::at_most, max_pitch,
                      shape.source.row_pitch);
    if (shape.destination.row_pitch > max_pitch)
        return refuse(FERRY_ERROR_PITCH, FERRY_SIDE_DESTINATION, FERRY_FIELD_ROW_PITCH, numbers::at_most, max_pitch,
                      shape.destination.row_pitch);
    return {};
}

} // namespace

error validate_bounds(const resolved_ends &resolved, const copy_limits &limits, shape &shape) noexcept {
    if (error failed = check_end(shape.source, FERRY_SIDE_SOURCE, shape, resolved.source)) return failed;
    if (error failed = check_end(shape.destination, FERRY_SIDE_DESTINATION, shape, resolved.destination)) return failed;
    if (error failed = check_formats(resolved)) return failed;
    if (shape.source.array && shape.destination.array)
        if (error failed = check_layers(shape, resolved.source.array)) return failed;
    if (ends_overlap(shape)) return refuse(FERRY_ERROR_OVERLAP, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS);
    shape.source.kind = resolved.source.kind;
    shape.source.device = resolved.source.device;
    shape.destination.kind = resolved.destination.kind;
    shape.destination.device = resolved.destination.device;
    if (shape.is_line()) return {};
    collapse(shape, limits.max_pitch);
    return check_strides(shape, resolved, limits.max_pitch);
}

} // namespace ferry
