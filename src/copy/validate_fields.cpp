// The first half of the validation, on the descriptor alone.
#include <algorithm>

#include "base/checked.h"
#include "copy/shape.h"

namespace ferry {

namespace {

template <std::size_t count> bool all_zero(const std::uint64_t (&words)[count]) noexcept {
    return std::all_of(words, words + count, [](std::uint64_t word) noexcept { return word == 0; });
}

// Computes the offset of x, y, z from the first byte of a place. False if it does not fit 64 bits.
bool find_offset(const shape_end &end, std::uint64_t x, std::uint64_t y, std::uint64_t z,
                 std::uint64_t &offset) noexcept {
    offset = x;
    if ((y | z) == 0) return true;
    std::uint64_t rows = 0;
    return multiply_add(z, end.slice_height, y, rows) && multiply_add(rows, end.row_pitch, x, offset);
}

// Reports the field with which the last byte exceeds 64 bits, and the largest valid value of that field.
[[gnu::cold, gnu::noinline]] error refuse_overflow(const ferry_place &place, std::int32_t side, const shape_end &end,
                                                   const extent &extent) noexcept {
    std::uint64_t slice_pitch = 0;
    if (!multiply_add(end.row_pitch, end.slice_height, 0, slice_pitch)) slice_pitch = 0;
    const struct {
        std::int32_t side, field;
        std::uint64_t value, first, stride;
    } steps[] = {{side, FERRY_FIELD_X, place.x, 0, 1},
                 {side, FERRY_FIELD_Y, place.y, 0, end.row_pitch},
                 {side, FERRY_FIELD_Z, place.z, 0, slice_pitch},
                 {FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, extent.width, 1, 1},
                 {FERRY_SIDE_EXTENT, FERRY_FIELD_HEIGHT, extent.height, 1, end.row_pitch},
                 {FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH, extent.depth, 1, slice_pitch}};
    std::uint64_t origin = 0, reach = 0, last = 0;
    // Files are shorter than 64 bits, so the offset is to blame if the box itself fits.
    if (end.file && find_offset(end, place.x, place.y, place.z, origin) &&
        find_offset(end, extent.width - 1, extent.height - 1, extent.depth - 1, reach) && add(origin, reach, last) &&
        place.address > UINT64_MAX - last)
        return refuse(FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_OFFSET, numbers::at_most, UINT64_MAX - last,
                      place.address);
    std::uint64_t room = UINT64_MAX - place.address;
    const std::uint64_t whole = room - std::min(room, place.x); // what remains after the origin in x
    for (const auto &step : steps) {
        const std::uint64_t count = step.value - step.first;
        if (count == 0) continue;
        if (step.stride == 0) break; // a single slice is already too large
        if (count > room / step.stride) {
            std::uint64_t limit = room / step.stride + step.first;
            // Without a stated pitch, the width is also the pitch, and without a slice height, the height is also the
            // slice height. A larger extent then also moves the origin.
            if (step.field == FERRY_FIELD_WIDTH && !place.row_pitch)
                limit = (whole + 1) / (place.z * end.slice_height + place.y + 1);
            if (step.field == FERRY_FIELD_HEIGHT && !place.slice_height)
                limit = ((whole - (extent.width - 1)) / end.row_pitch + 1 - place.y) / (place.z + 1);
            return refuse(FERRY_ERROR_OVERFLOW, step.side, step.field, numbers::at_most, limit, step.value);
        }
        room -= count * step.stride;
    }
    return place.slice_height ? refuse(FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_SLICE_HEIGHT, numbers::at_most,
                                       UINT64_MAX / end.row_pitch, place.slice_height)
                              : refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_HEIGHT, numbers::at_most,
                                       UINT64_MAX / end.row_pitch, extent.height);
}

} // namespace

error check_place(const ferry_place &place, std::int32_t side, const copy_limits &limits) noexcept {
    if (place.kind < FERRY_KIND_ANY || place.kind > FERRY_KIND_FILE)
        return refuse_signed(FERRY_ERROR_KIND, side, FERRY_FIELD_KIND, numbers::up_to, FERRY_KIND_FILE, place.kind);
    if (place.kind == FERRY_KIND_FILE && !place.file)
        return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_FILE, 0);
    if (place.kind != FERRY_KIND_FILE && place.file) return refuse(FERRY_ERROR_RESERVED, side, FERRY_FIELD_FILE);
    if (!all_zero(place.reserved)) return refuse(FERRY_ERROR_RESERVED, side, FERRY_FIELD_RESERVED);
    const bool reads_device = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
    if (reads_device && (place.device < FERRY_DEVICE_UNKNOWN || place.device >= limits.device_count))
        return refuse_signed(FERRY_ERROR_DEVICE, side, FERRY_FIELD_DEVICE, numbers::count, limits.device_count,
                             place.device);
    return {};
}

error validate_linear(const ferry_place &place, std::int32_t side, const copy_limits &limits, const extent &extent,
                      shape_end &end) noexcept {
    end.file = place.kind == FERRY_KIND_FILE ? place.file : nullptr;
    if (!place.address && !end.file) return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ADDRESS, 0);
    end.array = nullptr;
    end.x = end.y = end.z = 0;
    end.row_pitch = place.row_pitch ? place.row_pitch : extent.width;
    end.slice_height = place.slice_height ? place.slice_height : extent.height;

    std::uint64_t row_end = 0, slice_end = 0;
    if (!add(place.x, extent.width, row_end) || !add(place.y, extent.height, slice_end))
        return refuse_overflow(place, side, end, extent);

    // A default stride is checked only if it is used: the rows of a tight place have no space for an origin in x.
    const bool has_slices = extent.depth > 1 || place.z > 0;
    const bool has_rows = has_slices || extent.height > 1 || place.y > 0;
    if (end.row_pitch < row_end && (has_rows || place.row_pitch))
        return refuse(FERRY_ERROR_PITCH, side, FERRY_FIELD_ROW_PITCH, numbers::at_least, row_end, place.row_pitch);
    if (place.row_pitch > limits.max_pitch)
        return refuse(FERRY_ERROR_PITCH, side, FERRY_FIELD_ROW_PITCH, numbers::at_most, limits.max_pitch,
                      place.row_pitch);
    if (end.slice_height < slice_end && (has_slices || place.slice_height))
        return refuse(FERRY_ERROR_PITCH, side, FERRY_FIELD_SLICE_HEIGHT, numbers::at_least, slice_end,
                      place.slice_height);

    std::uint64_t origin = 0, reach = 0;
    if (!find_offset(end, place.x, place.y, place.z, origin) || !add(place.address, origin, end.span.first) ||
        !find_offset(end, extent.width - 1, extent.height - 1, extent.depth - 1, reach) ||
        !add(end.span.first, reach, end.span.last))
        return refuse_overflow(place, side, end, extent);
    return {};
}

namespace {

error validate_array(const ferry_place &place, std::int32_t side, shape_end &end) noexcept {
    if (!place.array) return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ARRAY, 0);
    end.array = place.array;
    end.file = nullptr;
    end.span = {};
    end.row_pitch = end.slice_height = 0;
    end.x = place.x;
    end.y = place.y;
    end.z = place.z;
    return {};
}

error validate_end(const ferry_place &place, std::int32_t side, const copy_limits &limits, const shape &shape,
                   shape_end &end) noexcept {
    return place.kind == FERRY_KIND_ARRAY
               ? validate_array(place, side, end)
               : validate_linear(place, side, limits, {shape.width, shape.height, shape.depth}, end);
}

bool fill_in_line(const ferry_place &place, std::uint64_t width, shape_end &end) noexcept {
    end.array = nullptr;
    end.file = nullptr;
    end.x = end.y = end.z = 0;
    end.row_pitch = width;
    end.slice_height = 1;
    end.span.first = place.address;
    return add(place.address, width - 1, end.span.last);
}

// A driver call evicts most of ferry from the caches, so the path of most copies is short. validate_any handles all
// other descriptors and reports what is wrong with them.
bool fill_in_contiguous_copy(const ferry_copy_desc &copy, const copy_limits &limits, shape &shape) noexcept {
    if (!is_contiguous_copy(copy, limits)) return false;
    shape.width = copy.width;
    shape.height = shape.depth = 1;
    return fill_in_line(copy.source, copy.width, shape.source) &&
           fill_in_line(copy.destination, copy.width, shape.destination);
}

[[gnu::noinline]] error validate_any(const ferry_copy_desc &copy, const copy_limits &limits, shape &shape) noexcept {
    if (!all_zero(copy.reserved)) return refuse(FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED);
    if (error failed = check_place(copy.source, FERRY_SIDE_SOURCE, limits)) return failed;
    if (error failed = check_place(copy.destination, FERRY_SIDE_DESTINATION, limits)) return failed;
    shape.width = copy.width;
    shape.height = std::max<std::uint64_t>(copy.height, 1);
    shape.depth = std::max<std::uint64_t>(copy.depth, 1);
    if (shape.empty()) return {};
    if (error failed = validate_end(copy.source, FERRY_SIDE_SOURCE, limits, shape, shape.source)) return failed;
    return validate_end(copy.destination, FERRY_SIDE_DESTINATION, limits, shape, shape.destination);
}

} // namespace

error validate_fields(const ferry_copy_desc &copy, const copy_limits &limits, shape &shape) noexcept {
    return fill_in_contiguous_copy(copy, limits, shape) ? ok : validate_any(copy, limits, shape);
}

} // namespace ferry
