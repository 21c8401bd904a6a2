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
failure run_driver_route(const driver_table &cu, const shape &shape, const copy_plan &plan, copy_form form,
                         const end_contexts &contexts, CUstream stream) noexcept;

} // namespace ferry
