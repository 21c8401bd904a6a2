// A copy that has been checked, in its simplest form: what the plan decides on and the routes execute.
#pragma once

#include "copy/layout.h"
#include "memory/resolve.h"

namespace ferry {

struct shape_end {
    memory_kind kind = memory_kind::pageable;
    int device = -1;           // -1: host memory, or the device of the context
    std::uint64_t address = 0; // linear: of the first byte; the origin is folded in
    CUarray array = nullptr;
    std::uint64_t x = 0, y = 0, z = 0; // array: the origin
    std::uint64_t row_pitch = 0;       // linear: bytes
    std::uint64_t slice_height = 0;    // linear: rows
};

// Tight 3D has become 2D and tight 2D 1D, where both ends are linear.
struct shape {
    shape_end source, destination;
    std::uint64_t width = 0, height = 1, depth = 1;
};

// The second half of the checks, which need to know the memory; then the shape.
failure make_shape(const ferry_copy_desc &copy, const copy_layout &layout, const resolved_place &source,
                   const resolved_place &destination, const copy_limits &limits, shape &shape) noexcept;

} // namespace ferry
