// Which way a fill goes. Pure, as plan.h.
#pragma once

#include "copy/fill.h"
#include "plan/plan.h"

namespace ferry {

// Fills with these wishes go by the driver, whatever else is known.
inline bool needs_no_choice(const fill_shape &shape, const copy_wishes &wishes) noexcept {
    return shape.is_line() && driver_has_call_for(shape) && !wishes.any();
}

struct fill_facts {
    int context_device = -1; // the device of the context the fill runs in
    obstacle kernels = obstacle::not_loaded;
    obstacle reach = obstacle::not_asked; // of kernels in that context; managed if they do, and it is that
    copy_wishes wishes = {};
    const device_profile *profile = nullptr; // of the context's device; must be there
};

struct fill_plan {
    route_kind route = route_kind::driver;
    obstacle refused = obstacle::none; // why the only route that could serve, or the one that is forced, does not
    std::uint16_t blocks = 0;          // of a kernel
};

fill_plan plan_fill(const fill_shape &shape, const fill_facts &facts) noexcept;

// The memory is another device's than the stream, which does not reach it.
failure refuse_device(const shape_end &end, int context_device) noexcept;

// What the caller is told of a plan that is refused.
failure refusal_of(const fill_shape &shape, const fill_facts &facts, const fill_plan &plan) noexcept;

} // namespace ferry
