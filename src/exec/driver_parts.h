// Fills that cross the borders of registered host memory: one driver call for each part; and which copies do.
#pragma once

#include "copy/fill.h"
#include "copy/split.h"
#include "exec/driver_copy.h"
#include "memory/host_ranges.h"

namespace ferry {

// Where a registered piece that the instance knows ends, as for_each_part asks for it.
struct known_pieces {
    const host_ranges &ranges;
    std::uint64_t operator()(std::uint64_t address) const noexcept { return ranges.end_of_piece(address); }
};

// Whether an end begins in a piece that the instance knows, and leaves it.
bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept;

// As run_driver_fill, part by part, after the driver has refused the whole. Where some of it is not registered, or a
// border cuts a pattern, what the driver said stands and nothing is filled.
[[gnu::cold, gnu::noinline]] error run_fill_in_parts(const driver_table &cu, const host_ranges &ranges,
                                                     const fill_shape &whole, const error &refused,
                                                     CUstream stream) noexcept;

} // namespace ferry
