#include "copy/layout.h"

#include <algorithm>

#include "base/checked.h"

namespace ferry {

namespace {

bool all_zero(const std::uint64_t (&words)[4]) noexcept { return (words[0] | words[1] | words[2] | words[3]) == 0; }

failure check_place_words(const ferry_place &place, std::int32_t side, const copy_limits &limits) noexcept {
    if (place.kind < FERRY_KIND_ANY || place.kind > FERRY_KIND_ARRAY) return {FERRY_ERROR_KIND, side, FERRY_FIELD_KIND};
    if (!all_zero(place.reserved)) return {FERRY_ERROR_RESERVED, side, FERRY_FIELD_RESERVED};
    const bool reads_device = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
    if (reads_device && (place.device < FERRY_DEVICE_UNKNOWN || place.device >= limits.device_count))
        return {FERRY_ERROR_DEVICE, side, FERRY_FIELD_DEVICE, static_cast<std::uint64_t>(limits.device_count),
                static_cast<std::uint64_t>(place.device)};
    return {};
}

failure lay_out_linear(const ferry_place &place, std::int32_t side, const copy_limits &limits,
                       const copy_layout &copy, end_layout &end) noexcept {
    if (!place.address) return {FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ADDRESS};
    end.linear = true;
    end.row_pitch = place.row_pitch ? place.row_pitch : copy.width;
    end.slice_height = place.slice_height ? place.slice_height : copy.height;

    const checked row_end = checked(place.x) + copy.width;
    const checked slice_end = checked(place.y) + copy.height;
    if (row_end.overflowed()) return {FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_X, 0, place.x};
    if (slice_end.overflowed()) return {FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_Y, 0, place.y};

    // A default is held to the rule only where it is a stride: rows of a tight place have no room for an origin in X.
    const bool has_slices = copy.depth > 1 || place.z > 0;
    const bool has_rows = has_slices || copy.height > 1 || place.y > 0;
    if ((has_rows || place.row_pitch) && end.row_pitch < row_end.value())
        return {FERRY_ERROR_PITCH, side, FERRY_FIELD_ROW_PITCH, row_end.value(), place.row_pitch};
    if (place.row_pitch > limits.max_pitch)
        return {FERRY_ERROR_PITCH, side, FERRY_FIELD_ROW_PITCH, limits.max_pitch, place.row_pitch};
    if ((has_slices || place.slice_height) && end.slice_height < slice_end.value())
        return {FERRY_ERROR_PITCH, side, FERRY_FIELD_SLICE_HEIGHT, slice_end.value(), place.slice_height};

    const checked first = checked(place.address) +
                          (checked(place.z) * end.slice_height + place.y) * end.row_pitch + place.x;
    const checked last = first + (checked(copy.depth - 1) * end.slice_height + (copy.height - 1)) * end.row_pitch +
                         (copy.width - 1);
    if (first.overflowed()) return {FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_ADDRESS, 0, place.address};
    if (last.overflowed()) return {FERRY_ERROR_OVERFLOW, FERRY_SIDE_EXTENT, FERRY_FIELD_WIDTH, 0, copy.width};
    end.span.first = first.value();
    end.span.last = last.value();
    return {};
}

failure lay_out_end(const ferry_place &place, std::int32_t side, const copy_limits &limits, const copy_layout &copy,
                    end_layout &end) noexcept {
    if (place.kind != FERRY_KIND_ARRAY) return lay_out_linear(place, side, limits, copy, end);
    if (!place.array) return {FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ARRAY};
    return {};
}

} // namespace

failure lay_out(const ferry_copy_desc &copy, const copy_limits &limits, copy_layout &layout) noexcept {
    if (copy.flags) return {FERRY_ERROR_FLAGS, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0, copy.flags};
    if (copy.reserved0 || !all_zero(copy.reserved))
        return {FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED};
    if (failure failed = check_place_words(copy.source, FERRY_SIDE_SOURCE, limits)) return failed;
    if (failure failed = check_place_words(copy.destination, FERRY_SIDE_DESTINATION, limits)) return failed;
    layout.width = copy.width;
    layout.height = std::max<std::uint64_t>(copy.height, 1);
    layout.depth = std::max<std::uint64_t>(copy.depth, 1);
    if (layout.empty()) return {};
    if (failure failed = lay_out_end(copy.source, FERRY_SIDE_SOURCE, limits, layout, layout.source)) return failed;
    return lay_out_end(copy.destination, FERRY_SIDE_DESTINATION, limits, layout, layout.destination);
}

} // namespace ferry
