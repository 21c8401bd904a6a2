// A fill as the library sees it: checked, and in its simplest form.
#pragma once

#include "copy/shape.h"

namespace ferry {

struct fill_shape {
    shape_end destination;
    std::uint64_t width, height, depth; // bytes, rows, slices; after settle_fill one slice
    std::uint32_t unit;                 // bytes of the pattern: 1, 2 or 4
    std::uint32_t value;                // the pattern, as an integer of that size
};

// What the descriptor says by itself. A width of 0 fills nothing, and is right whatever the address is.
failure lay_out_fill(const ferry_fill_desc &fill, const copy_limits &limits, fill_shape &shape) noexcept;

// Against the memory; then tight slices become rows, and tight rows one.
failure settle_fill(const resolved_place &resolved, fill_shape &shape) noexcept;

} // namespace ferry
