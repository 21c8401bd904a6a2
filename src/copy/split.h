// Splits a copy into boxes that the driver accepts: whole slices, whole rows, and parts of the rows that cross a
// border. The driver rejects a copy whose host end starts in one piece of registered memory and extends past it
// (docs/driver.md).
#pragma once

#include "base/function_ref.h"
#include "copy/shape.h"

namespace ferry {

// A part with a width of 0 is absent.
struct cut_shape {
    shape before; // before the border
    shape across; // one slice or row that crosses the border
    shape after;
};

// Splits a copy at the border that is `distance` bytes after the first byte of its source or its destination. That end
// must be linear, start before the border and end after it.
cut_shape cut_at_border(const shape &whole, bool at_source, std::uint64_t distance) noexcept;

// Splits a copy into boxes of at most `max_bytes` bytes: whole slices, whole rows, or parts of a row. Calls `run` for
// each box in the order of the bytes, until a call fails.
error for_each_chunk(const shape &whole, std::uint64_t max_bytes, function_ref<error(const shape &)> run) noexcept;

// Calls `run` for each part in the order of the bytes, until a call fails. `end_of_piece(address)` returns the first
// address past the piece of registered memory that contains `address`, or 0 if the memory is not registered.
error for_each_part(const shape &whole, function_ref<std::uint64_t(std::uint64_t)> end_of_piece,
                    function_ref<error(const shape &)> run) noexcept;

// Whether an end starts in a registered piece that the instance knows, and extends past that piece.
bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept;

} // namespace ferry
