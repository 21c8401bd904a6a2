// The driver's own call: it serves every copy, and replaces a route that runs out of memory.
#pragma once

#include "exec/driver_copy.h"
#include "routes/route.h"

namespace ferry {

// How long the driver route blocks its caller: "API synchronization behavior" of the CUDA driver API, and CUDA 13.0 as
// observed. It must be known whether host memory is pageable.
enum class blocking { no, until_staged, until_done };
blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept;
// The same for a copy on any route. `source` and `destination` are the kinds of memory that the driver reports.
blocking blocking_of(const shape &shape, const call_facts &call, const copy_plan &plan, memory_kind source,
                     memory_kind destination) noexcept;

// Whether the call would wait for work of a stream, which FERRY_COPY_NO_WAIT forbids.
[[gnu::cold]] bool waits(const shape &shape, const call_facts &call, const copy_plan &plan) noexcept;

// Makes a context current in which a graph accepts the driver's call. Graphs do not support the calls that name
// contexts. They support the plain calls, which can use all memory except pool memory: plain calls check pool memory
// against the current context, regardless of the copy's stream. A graph reads a pageable source when it is launched,
// before the work before the copy has run, so such a copy is rejected (docs/driver.md).
[[gnu::cold, gnu::noinline]] error enter_for_graph(machine &machine, const shape &shape, const call_facts &call,
                                                   const copy_site &site, context_scope &scope) noexcept;

// Copies `shape` with the driver's call. `plan` must be a plan for the driver route.
error copy_by_driver(machine &machine, const shape &shape, const call_facts &call, const copy_plan &plan,
                     const copy_site &site) noexcept;

// Whether the driver reads the whole source within its call, which takes so little time that the caller may wait for
// it.
inline bool is_small_upload(const shape &shape) noexcept {
    return is_read_in_the_call(shape) && shape.bytes() <= max_small_copy;
}

// Runs a step of the driver route. Called directly instead of through the table, because it is the path of contiguous
// copies.
[[gnu::hot]] error run_driver(machine &machine, const copy_step &step, const copy_site &site) noexcept;

} // namespace ferry
