// The driver's own fill: one memset call with one or two dimensions. A fill that crosses the borders of registered host
// memory uses one call per part.
#pragma once

#include "copy/fill.h"
#include "driver/table.h"
#include "exec/graph_target.h"

namespace ferry {

// Finds the device address of pinned memory, which may differ from its host address. `facts` must have been queried in
// the fill's context.
error find_pinned_on_device(const address_facts &facts, std::uint64_t &address) noexcept;

// Returns the name of the call that run_driver_fill makes.
const char *driver_fill_name(const fill_shape &shape) noexcept;

// Fills the memory at the device address `address`. The fill's context must be current, and the driver must have a call
// for the shape.
error run_driver_fill(const driver_table &cu, const fill_shape &shape, std::uint64_t address, CUstream stream) noexcept;

// Makes the fill a node of a graph. `context` is the context of the node.
[[gnu::cold]] error set_fill_node(const driver_table &cu, const fill_shape &shape, std::uint64_t address,
                                  CUcontext context, graph_target &target) noexcept;

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
