// Expresses a nest as boxes, which every route can copy.
#pragma once

#include "base/function_ref.h"
#include "copy/nest.h"
#include "copy/shape.h"

namespace ferry {

// How a normalized nest is cut into boxes: two of its axes at most are the rows and slices of each box.
struct nest_boxes {
    int rows = -1, slices = -1; // axes; -1: none
    std::uint64_t count = 1;    // of boxes; UINT64_MAX if there are more

    bool is_inside(int axis) const noexcept { return axis == rows || axis == slices; }
};

// Indices in device memory cannot be read, so a nest that has any cannot be cut.
nest_boxes cut_into_boxes(const nest &of, std::uint64_t max_pitch) noexcept;

// The first box, without the kinds of its ends.
shape first_box(const nest &of, const nest_boxes &cut) noexcept;

// Calls then(copy) for each box until a call fails. `destination` and `source` give the kinds of both ends.
error for_each_box(const nest &of, const nest_boxes &cut, const ferry_place &destination, const ferry_place &source,
                   function_ref<error(const ferry_copy_desc &)> then) noexcept;

} // namespace ferry
