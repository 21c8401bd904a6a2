#include "copy/nest_fields.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace ferry {

namespace {

// A signed distance in bytes: `up` - `down`.
struct signed_distance {
    std::uint64_t up = 0, down = 0;

    // Adds stride * index. False if it does not fit.
    [[nodiscard]] bool add_product(std::int64_t stride, std::uint64_t index) noexcept {
        std::uint64_t product = 0;
        if (!multiply(magnitude(stride), index, product)) return false;
        std::uint64_t &towards = stride < 0 ? down : up;
        return add(towards, product, towards);
    }
    [[nodiscard]] bool from(std::uint64_t address, std::uint64_t &result) const noexcept {
        if (!add(address, up, result) || result < down) return false;
        result -= down;
        return true;
    }
};

// The distances from the place of an end to its lowest and its highest run.
struct nest_reach {
    signed_distance low, high;

    [[nodiscard]] bool add(std::int64_t stride, std::uint64_t first, std::uint64_t last) noexcept {
        if (stride < 0) std::swap(first, last);
        return low.add_product(stride, first) && high.add_product(stride, last);
    }
};

error check_linear(const ferry_place &place, std::int32_t side, const copy_limits &limits) noexcept {
    if (error failed = check_place(place, side, limits)) return failed;
    if (place.kind == FERRY_KIND_ARRAY)
        return refuse_signed(FERRY_ERROR_UNSUPPORTED, side, FERRY_FIELD_KIND, numbers::one_of,
                             1 << FERRY_KIND_ANY | 1 << FERRY_KIND_HOST | 1 << FERRY_KIND_DEVICE |
                                 1 << FERRY_KIND_PINNED | 1 << FERRY_KIND_FILE,
                             place.kind);
    const struct {
        std::int32_t field;
        std::uint64_t value;
    } unused[] = {{FERRY_FIELD_ROW_PITCH, place.row_pitch},
                  {FERRY_FIELD_SLICE_HEIGHT, place.slice_height},
                  {FERRY_FIELD_X, place.x},
                  {FERRY_FIELD_Y, place.y},
                  {FERRY_FIELD_Z, place.z}};
    for (const auto &one : unused)
        if (one.value) return refuse(FERRY_ERROR_RESERVED, side, one.field, numbers::equal, 0, one.value);
    return {};
}

error read_indices(const ferry_axis &axis, std::int32_t side, nest_indices &indices) noexcept {
    if (axis.index_type < FERRY_INDEX_NONE || axis.index_type > FERRY_INDEX_U64)
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, side, FERRY_FIELD_INDEX_TYPE, numbers::up_to,
                             FERRY_INDEX_U64, axis.index_type);
    if (axis.index_memory < FERRY_INDICES_HOST || axis.index_memory > FERRY_INDICES_DEVICE)
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, side, FERRY_FIELD_INDEX_MEMORY, numbers::up_to,
                             FERRY_INDICES_DEVICE, axis.index_memory);
    if (axis.index_type == FERRY_INDEX_NONE) {
        if (axis.indices)
            return refuse(FERRY_ERROR_INVALID_ARGUMENT, side, FERRY_FIELD_INDEX_TYPE, numbers::at_least, 1, 0);
        return {};
    }
    indices = {.address = axis.indices,
               .limit = axis.index_limit,
               .is_wide = axis.index_type == FERRY_INDEX_U64,
               .is_on_host = axis.index_memory == FERRY_INDICES_HOST};
    if (axis.count == 0) return {};
    if (!axis.indices) return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_INDICES, 0);
    if (axis.indices % indices.size())
        return refuse(FERRY_ERROR_ALIGNMENT, side, FERRY_FIELD_INDICES, numbers::multiple, indices.size(),
                      axis.indices);
    if (axis.index_limit == 0)
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, side, FERRY_FIELD_INDEX_LIMIT, numbers::at_least, 1, 0);
    return {};
}

// Finds the lowest and the highest number of a list. Takes two at a time, because each comparison with the lowest number
// so far waits for the previous one. `count` is not 0.
template <class Index>
void find_extremes_of(const std::byte *list, std::uint64_t count, std::uint64_t &least, std::uint64_t &most) noexcept {
    const auto at = [list](std::uint64_t i) noexcept {
        Index index;
        std::memcpy(&index, list + i * sizeof index, sizeof index);
        return index;
    };
    Index low = at(0), high = low;
    for (std::uint64_t i = count % 2; i < count; i += 2) {
        const Index first = at(i), second = at(i + 1);
        low = std::min(low, std::min(first, second));
        high = std::max(high, std::max(first, second));
    }
    least = low;
    most = high;
}

// Finds the lowest and the highest index of an axis.
error find_extremes(std::uint64_t count, const nest_indices &indices, std::int32_t side, std::uint64_t &least,
                    std::uint64_t &most) noexcept {
    least = 0;
    most = (indices.address ? indices.limit : count) - 1;
    if (!indices.is_on_host) return {};
    const auto *const list = reinterpret_cast<const std::byte *>(static_cast<std::uintptr_t>(indices.address));
    (indices.is_wide ? find_extremes_of<std::uint64_t> : find_extremes_of<std::uint32_t>)(list, count, least, most);
    if (most < indices.limit) return {};
    return refuse(FERRY_ERROR_OUT_OF_BOUNDS, side, FERRY_FIELD_INDICES, numbers::count, indices.limit, most);
}

// Adds the reach of one axis of one end.
error reach_along(const ferry_axis &axis, const nest_indices &indices, std::int32_t side, nest_reach &of) noexcept {
    std::uint64_t least = 0, most = 0;
    if (error failed = find_extremes(axis.count, indices, side, least, most)) return failed;
    if (of.add(axis.stride, least, most)) return {};
    return refuse_signed(FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_STRIDE, numbers::value, 0, axis.stride);
}

error find_span(const ferry_place &place, std::int32_t side, std::uint64_t width, const nest_reach &of,
                address_span &span) noexcept {
    if (!place.address && place.kind != FERRY_KIND_FILE)
        return refuse_value(FERRY_ERROR_ADDRESS, side, FERRY_FIELD_ADDRESS, 0);
    if (of.low.from(place.address, span.first) && of.high.from(place.address, span.last) &&
        add(span.last, width - 1, span.last))
        return {};
    const std::int32_t field = place.kind == FERRY_KIND_FILE ? FERRY_FIELD_OFFSET : FERRY_FIELD_ADDRESS;
    return refuse_value(FERRY_ERROR_OVERFLOW, side, field, place.address);
}

} // namespace

error validate_nest(const ferry_nest &given, const copy_limits &limits, checked_nest &checked, int &bad_axis) noexcept {
    bad_axis = no_axis;
    checked = {};
    if (given.reserved_32 ||
        std::any_of(given.reserved, given.reserved + 4, [](std::uint64_t word) { return word != 0; }))
        return refuse(FERRY_ERROR_RESERVED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_RESERVED);
    if (given.axes > FERRY_NEST_AXES)
        return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_AXES, numbers::at_most,
                      FERRY_NEST_AXES, given.axes);
    if (given.skipped % sizeof(std::uint64_t))
        return refuse(FERRY_ERROR_ALIGNMENT, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_SKIPPED, numbers::multiple,
                      sizeof(std::uint64_t), given.skipped);
    if (error failed = check_linear(given.source.place, FERRY_SIDE_SOURCE, limits)) return failed;
    if (error failed = check_linear(given.destination.place, FERRY_SIDE_DESTINATION, limits)) return failed;

    nest moved = {
        .destination = given.destination.place.address, .source = given.source.place.address, .run = given.width};
    const bool is_empty = given.width == 0 || std::any_of(given.source.axes, given.source.axes + given.axes,
                                                          [](const ferry_axis &axis) { return axis.count == 0; });
    std::uint64_t bytes = is_empty ? 0 : given.width;
    for (std::uint32_t i = 0; i < given.axes; ++i) {
        bad_axis = static_cast<int>(i);
        const ferry_axis &to = given.destination.axes[i], &from = given.source.axes[i];
        if (from.reserved[0] | from.reserved[1])
            return refuse(FERRY_ERROR_RESERVED, FERRY_SIDE_SOURCE, FERRY_FIELD_RESERVED);
        if (to.reserved[0] | to.reserved[1])
            return refuse(FERRY_ERROR_RESERVED, FERRY_SIDE_DESTINATION, FERRY_FIELD_RESERVED);
        if (to.count != from.count)
            return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_DESTINATION, FERRY_FIELD_COUNT, numbers::equal,
                          from.count, to.count);
        nest_axis axis = {.count = to.count, .destination_stride = to.stride, .source_stride = from.stride};
        if (error failed = read_indices(from, FERRY_SIDE_SOURCE, axis.source_indices)) return failed;
        if (error failed = read_indices(to, FERRY_SIDE_DESTINATION, axis.destination_indices)) return failed;
        if (const std::uint64_t before = bytes; !multiply(before, axis.count, bytes))
            return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_DESTINATION, FERRY_FIELD_COUNT, numbers::at_most,
                          UINT64_MAX / before, axis.count);
        moved.add(axis);
    }
    bad_axis = no_axis;
    if (is_empty) return {};

    nest_reach source, destination;
    for (std::uint32_t i = 0; i < given.axes; ++i) {
        bad_axis = static_cast<int>(i);
        if (error failed = reach_along(given.source.axes[i], moved.axis[i].source_indices, FERRY_SIDE_SOURCE, source))
            return failed;
        if (error failed = reach_along(given.destination.axes[i], moved.axis[i].destination_indices,
                                       FERRY_SIDE_DESTINATION, destination))
            return failed;
    }
    bad_axis = no_axis;
    if (error failed = find_span(given.source.place, FERRY_SIDE_SOURCE, given.width, source, checked.source_span))
        return failed;
    if (error failed = find_span(given.destination.place, FERRY_SIDE_DESTINATION, given.width, destination,
                                 checked.destination_span))
        return failed;
    checked.source = given.source.place;
    checked.source.address = checked.source_span.first;
    checked.destination = given.destination.place;
    checked.destination.address = checked.destination_span.first;
    checked.moved = moved;
    checked.skipped = given.skipped;
    return {};
}

} // namespace ferry
