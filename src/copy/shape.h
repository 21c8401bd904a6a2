// A copy as the library sees it: both ends with their strides filled in and their origins folded away, checked, and in
// its simplest form. What the plan decides on and the routes execute.
#pragma once

#include "memory/resolve.h"

namespace ferry {

// Every field is filled by lay_out and settle, so none is cleared before: that would cost as much as the checks.
struct shape_end {
    memory_kind kind;
    int device;                 // -1: host memory, or the device of the context
    CUarray array;              // null: linear
    std::uint64_t x, y, z;      // array: the origin
    address_span span;          // linear: the first byte, origin included, and the last
    std::uint64_t row_pitch;    // linear: bytes
    std::uint64_t slice_height; // linear: rows
};

struct shape {
    shape_end source, destination;
    std::uint64_t width, height, depth;
    bool empty() const noexcept { return width == 0; }
    bool is_line() const noexcept { return height == 1 && depth == 1; }
};

struct extent {
    std::uint64_t width, height, depth;
};

struct copy_limits {
    int device_count = 0;
    std::uint64_t max_pitch = 0; // bytes; the smallest of the devices'
};

// FERRY_COPY_*, of which no two contradict each other.
bool are_known_copy_flags(std::uint32_t flags) noexcept;

// Whether a descriptor is one line without origin or pitch, of linear memory, and right as far as it says by itself: what
// most copies are. All that could be wrong is looked at together, without a branch for each.
inline bool is_plain_line(const ferry_copy_desc &copy, const copy_limits &limits) noexcept {
    // Everything that is zero in a place without strides, origin and mistakes.
    const auto unusual = [](const ferry_place &place) noexcept {
        return place.row_pitch | place.slice_height | place.x | place.y | place.z | place.reserved[0] |
               place.reserved[1] | place.reserved[2] | place.reserved[3];
    };
    const auto is_known_memory = [&](const ferry_place &place) noexcept {
        static_assert(FERRY_KIND_ANY == 0 && FERRY_KIND_HOST < FERRY_KIND_DEVICE);
        // FERRY_DEVICE_UNKNOWN, -1, becomes 0 and every other negative number a large one.
        const bool is_known_device =
            static_cast<unsigned>(place.device) + 1u <= static_cast<unsigned>(limits.device_count);
        return place.address && static_cast<unsigned>(place.kind) <= FERRY_KIND_DEVICE &&
               (place.kind != FERRY_KIND_DEVICE || is_known_device);
    };
    const std::uint64_t odd = copy.flags | copy.reserved0 | copy.reserved[0] | copy.reserved[1] | copy.reserved[2] |
                              copy.reserved[3] | unusual(copy.source) | unusual(copy.destination);
    if (odd || copy.height > 1 || copy.depth > 1 || copy.width == 0) return false;
    return is_known_memory(copy.source) && is_known_memory(copy.destination);
}

// The first half of the checks: what a descriptor says by itself is wrong whatever the memory is. An empty copy is
// right, whatever its addresses are.
failure lay_out(const ferry_copy_desc &copy, const copy_limits &limits, shape &shape) noexcept;

struct resolved_ends {
    resolved_place source, destination;
};

// The second half, which needs to know the memory. Then tight 3D becomes 2D and tight 2D 1D, where both ends are
// linear.
failure settle(const resolved_ends &resolved, const copy_limits &limits, shape &shape) noexcept;

// Parts of both that a fill, which has one place, shares with copies: kind, device and reserved fields; a linear place
// with its strides and span; the span within its allocation, where that is known.
failure check_place(const ferry_place &place, std::int32_t side, const copy_limits &limits) noexcept;
failure lay_out_linear(const ferry_place &place, std::int32_t side, const copy_limits &limits, const extent &extent,
                       shape_end &end) noexcept;
failure check_range(const shape_end &end, std::int32_t side, const resolved_place &resolved) noexcept;

// Whether source and destination share bytes. Exact for two linear ends of equal strides (columns of one image may
// interleave) and for boxes of one array; for unequal strides true only where the first bytes coincide.
bool ends_overlap(const shape &shape) noexcept;

} // namespace ferry
