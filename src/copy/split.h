// Cuts a copy into boxes that the driver takes: whole slices, whole rows, and parts of the rows that a border cuts. The
// driver refuses a copy whose host end begins in one piece of registered memory and leaves it (docs/driver.md).
#pragma once

#include "base/function_ref.h"
#include "copy/shape.h"

namespace ferry {

// A part without a width is absent.
struct cut_shape {
    shape before; // before the border
    shape across; // one slice or row that the border cuts
    shape after;
};

// Cuts a copy at the border that lies `distance` bytes after the first byte of its source or its destination. That end
// must be linear, begin before the border and end after it.
cut_shape cut_at_border(const shape &whole, bool at_source, std::uint64_t distance) noexcept;

// Cuts a copy into boxes of at most `max_bytes` bytes: whole slices, whole rows, or parts of a row. Runs `run` for each
// in the order of the bytes, until one fails.
error for_each_chunk(const shape &whole, std::uint64_t max_bytes, function_ref<error(const shape &)> run) noexcept;

// Runs `run` for each part in the order of the bytes, until one fails. `end_of_piece(address)` returns the first
// address beyond the piece of registered memory that holds `address`, or 0 where there is none.
error for_each_part(const shape &whole, function_ref<std::uint64_t(std::uint64_t)> end_of_piece,
                    function_ref<error(const shape &)> run) noexcept;

} // namespace ferry
