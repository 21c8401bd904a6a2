// The driver's own copy: the route every device has, and the reference the others are tested against.
#pragma once

#include "driver/table.h"
#include "plan/plan.h"

namespace ferry {

// Each end's context, for the calls that name them; unused for host memory.
struct end_contexts {
    CUcontext source = nullptr;
    CUcontext destination = nullptr;
};

// The copy's context must be current. `stream` is not read by the synchronous form.
error run_driver_route(const driver_table &cu, const shape &shape, const copy_plan &plan, copy_form form,
                       const end_contexts &contexts, CUstream stream) noexcept;

// The call that it makes.
const char *driver_call_name(const copy_plan &plan, copy_form form) noexcept;

// The wait after calls that return early. It is no part of any capture, and must not break one that some thread has
// under way: it would, in the default mode, even where the copy before it did not (seen on CUDA 13.0).
[[gnu::noinline]] error wait_for_legacy_stream(const driver_table &cu) noexcept;

} // namespace ferry
