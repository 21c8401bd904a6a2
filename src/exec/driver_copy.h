// The driver's own copy: the route that every device has, and the reference for the tests of all other routes.
#pragma once

#include "driver/table.h"
#include "exec/graph_target.h"
#include "plan/plan.h"

namespace ferry {

// The context of each end, for calls that name contexts. Unused for host memory.
struct end_contexts {
    CUcontext source = nullptr;
    CUcontext destination = nullptr;
};

// Makes the driver call. The copy's context must be current. The synchronous form does not use `stream`.
[[gnu::hot]] error run_driver_route(const driver_table &cu, const shape &shape, const copy_plan &plan, copy_form form,
                                    const end_contexts &contexts, CUstream stream) noexcept;

// One end of a contiguous copy: pinned memory, or memory of the current context's device.
struct line_end {
    memory_kind kind;
    std::uint64_t address;
};

// Makes the call that run_driver_route makes for a contiguous copy.
call_result copy_line(const driver_table &cu, const line_end &source, const line_end &destination, std::uint64_t bytes,
                      copy_form form, CUstream stream) noexcept;

// Makes the copy a node of a graph. The context of the node must be current.
[[gnu::cold]] error set_copy_node(const driver_table &cu, const shape &shape, graph_target &target) noexcept;

// Returns the name of the call that run_driver_route makes.
const char *driver_call_name(const copy_plan &plan, copy_form form) noexcept;

} // namespace ferry
