// The validation of a nest against its own fields: counts, strides, indices in host memory, and the bytes that both ends
// span. Pure, apart from reading the indices.
#pragma once

#include "copy/nest.h"
#include "copy/shape.h"
#include "ferry/ferry_nest.h"

namespace ferry {

// A nest that is valid by itself.
struct checked_nest {
    nest moved;                                // empty: nothing to copy
    ferry_place destination = {}, source = {}; // at the first byte of their spans
    address_span destination_span = {},
                 source_span = {}; // all bytes between the first and the last that may be accessed
    std::uint64_t skipped = 0;
};

// The number of the axis that an error is about, or -1.
constexpr int no_axis = -1;

error validate_nest(const ferry_nest &given, const copy_limits &limits, checked_nest &checked, int &bad_axis) noexcept;

} // namespace ferry
