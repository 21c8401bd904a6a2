// Chooses the route of a fill. Pure, like plan.h.
#pragma once

#include "copy/fill.h"
#include "plan/plan.h"

namespace ferry {

// Whether a fill with these preferences uses the driver regardless of all other facts.
inline bool needs_no_choice(const fill_shape &shape, const copy_preferences &preferences) noexcept {
    return shape.is_line() && driver_has_call_for(shape) && !preferences.any();
}

struct fill_facts {
    int context_device = -1; // the device of the context in which the fill runs
    obstacle kernels = obstacle::not_loaded;
    // Why kernels in that context cannot access the memory. `managed`: kernels can access the memory, which is managed.
    obstacle reach = obstacle::not_known;
    copy_preferences preferences = {};
    const device_profile *profile = nullptr; // of the context's device; must not be null
};

struct fill_plan {
    route_kind route = route_kind::driver;
    obstacle refused = obstacle::none; // why the only possible route, or the forced route, cannot serve
    std::uint16_t blocks = 0;          // for a kernel
    std::uint8_t reason = FERRY_REASON_LINE;
    obstacle why_no_kernel = obstacle::none;
};

fill_plan plan_fill(const fill_shape &shape, const fill_facts &facts) noexcept;

// Returns the error for memory on a device other than the stream's, to which the stream's device has no access.
error refuse_device(const shape_end &end, int context_device) noexcept;

// Returns the caller's error for a plan that is refused.
error refusal_of(const fill_shape &shape, const fill_facts &facts, const fill_plan &plan) noexcept;

} // namespace ferry
