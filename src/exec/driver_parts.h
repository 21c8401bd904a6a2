// Detects copies and fills that cross the borders of registered host memory, and runs such fills with one driver call
// per part.
#pragma once

#include "copy/fill.h"
#include "copy/split.h"
#include "exec/driver_copy.h"
#include "memory/host_ranges.h"

namespace ferry {

// Returns the end of a registered piece that the instance knows, in the form that for_each_part expects.
struct known_pieces {
    const host_ranges &ranges;
    std::uint64_t operator()(std::uint64_t address) const noexcept { return ranges.end_of_piece(address); }
};

// Whether an end starts in a registered piece that the instance knows, and extends past that piece.
bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept;

// Counts the calls that fill `whole`: 1, or one for each part if registered pieces end within it. `refused` is returned
// if a part of the memory is not registered, or a border divides a pattern.
[[gnu::cold]] error count_fill_parts(const host_ranges &ranges, const fill_shape &whole, const error &refused,
                                     std::uint32_t &parts) noexcept;

// Fills part by part, after the driver has rejected the whole fill. If count_fill_parts fails, fills nothing and
// returns the driver's error.
[[gnu::cold, gnu::noinline]] error run_fill_in_parts(const driver_table &cu, const host_ranges &ranges,
                                                     const fill_shape &whole, const error &refused,
                                                     CUstream stream) noexcept;

} // namespace ferry
