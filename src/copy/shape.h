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
