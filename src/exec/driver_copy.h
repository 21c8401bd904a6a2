// The driver's own copy: the route every device has, and the reference the others are tested against.
#pragma once

#include "driver/table.h"
#include "plan/plan.h"

namespace ferry {

// The context of each end, for the calls that name contexts. Unused for host memory.
struct end_contexts {
    CUcontext source = nullptr;
    CUcontext destination = nullptr;
};

// Makes the driver call. The copy's context must be current. The synchronous form does not read `stream`.
[[gnu::hot]] error run_driver_route(const driver_table &cu, const shape &shape, const copy_plan &plan, copy_form form,
                                    const end_contexts &contexts, CUstream stream) noexcept;

// Returns the name of the call that run_driver_route makes.
const char *driver_call_name(const copy_plan &plan, copy_form form) noexcept;

// Waits for the legacy stream, after calls that return early. The wait is part of no capture and must not break one in
// progress on any thread. In the default capture mode it would, even where the copy before it did not (seen on CUDA
// 13.0).
[[gnu::noinline]] error wait_for_legacy_stream(const driver_table &cu) noexcept;

} // namespace ferry
