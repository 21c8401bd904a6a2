// The library's representation of a fill: validated and in its simplest form.
#pragma once

#include "copy/shape.h"

namespace ferry {

struct fill_shape {
    shape_end destination;
    std::uint64_t width, height, depth; // bytes, rows, slices
    std::uint32_t unit;                 // size of the pattern in bytes: 1, 2, 4, 8 or 16
    std::uint8_t pattern[16];           // only the first `unit` bytes are read
    bool is_line() const noexcept { return height == 1 && depth == 1; }
};

// The driver's memset calls support patterns up to this size in bytes, and one pitch for all rows.
constexpr std::uint32_t max_unit_of_driver = 4;
inline bool driver_has_call_for(const fill_shape &shape) noexcept {
    return shape.unit <= max_unit_of_driver && shape.depth == 1;
}

// Validates the descriptor alone and computes the layout of the fill. A width of 0 fills nothing and is valid at any
// address.
error validate_fill_fields(const ferry_fill_desc &fill, const copy_limits &limits, fill_shape &shape) noexcept;

// Validates the fill against the memory, then folds dimensions: tight slices and slices of one row become rows, and
// tight rows become one row.
error validate_fill_bounds(const resolved_place &resolved, const copy_limits &limits, fill_shape &shape) noexcept;

} // namespace ferry
