// The driver's own call: serves every copy, and copies instead of a route that lacks memory.
#pragma once

#include "exec/driver_copy.h"
#include "routes/route.h"

namespace ferry {

// How long the driver route blocks its caller: "API synchronization behavior" of the CUDA driver API, and CUDA 13.0 as
// observed. Whether host memory is pageable must be known.
enum class blocking { no, until_staged, until_done };
blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept;

// Makes a context current in which a graph takes the driver's call. Graphs do not take the calls that name contexts.
// They take the plain calls, which find all memory except that of pools: plain calls check pool memory against the
// current context, whichever stream the copy is on. A graph reads a pageable source when it is launched, before the work
// in front of the copy has run, so such a copy is refused (docs/driver.md).
[[gnu::cold, gnu::noinline]] error enter_for_graph(machine &machine, const shape &shape, const call_facts &call,
                                                   const copy_site &site, context_scope &scope) noexcept;

// Copies `shape` by the driver's call. `plan` is a plan for the driver route.
error copy_by_driver(machine &machine, const shape &shape, const call_facts &call, const copy_plan &plan,
                     const copy_site &site) noexcept;

// Whether the driver reads all of the copy in its call, which takes so little time that the caller may wait for it.
inline bool is_small_upload(const shape &shape) noexcept {
    return is_read_in_the_call(shape) && shape.bytes() <= max_small_copy;
}

// Runs a step of the driver route. The path of a plain line, so it is not called through the table.
[[gnu::hot]] error run_driver(machine &machine, const copy_step &step, const copy_site &site) noexcept;

} // namespace ferry
