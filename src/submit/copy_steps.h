// Steps of a copy that those in batches take too; none of them is on a plain copy's way.
#pragma once

#include "copy/split.h"
#include "exec/driver_copy.h"
#include "exec/driver_parts.h"
#include "exec/kernel_copy.h"
#include "plan/plan.h"
#include "staging/staged_copy.h"
#include "submit/instance.h"

namespace ferry {

// The device that a place is on, for a thread without a current context: as stated, else the driver is asked. -1: none.
[[gnu::cold, gnu::noinline]] error find_device_of(const ferry_instance &instance, const ferry_place &place,
                                                  int &device) noexcept;

// Of the ends that are arrays.
[[gnu::noinline]] error look_up_arrays(const driver_table &cu, const ferry_copy_desc &copy,
                                       resolved_ends &ends) noexcept;

// Memory of a host pool counts as pageable in a copy from or to a device that has no access to the pool: in the context of
// one that has it, driver 580 takes that for a copy between the devices and ends the process. Only where the copy leaves
// its context's device.
[[gnu::cold, gnu::noinline]] error look_up_pool_ends(ferry_instance &instance, int context_device,
                                                     shape &shape) noexcept;

// Where a copy goes: the stream's context is current.
struct copy_site {
    CUcontext context;
    CUstream stream;
};

// For the driver's call in a graph: makes a context current in which the graph takes that call. Graphs do not take the
// calls that name contexts. They take the plain ones, which find all memory but that of pools: that they check against
// the current context, whichever stream the copy is on. A pageable source they read when the graph is launched, before
// the work in front of it has run, so such a copy is refused (docs/driver.md).
[[gnu::cold, gnu::noinline]] error enter_for_graph(ferry_instance &instance, const shape &shape,
                                                   const plan_facts &facts, const copy_site &site,
                                                   context_scope &scope) noexcept;

// Which ends kernels reach, and where; of pageable memory, which end staged copies do. Asks about an end only what `ends` does
// not hold yet, and keeps it there. The copy's context, `context`, must be current.
error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept;

// Asks what is not known of a linear end.
inline error know_everything(const driver_table &cu, const shape_end &end, resolved_place &place) noexcept {
    if (place.asked == ask::everything_and_access) return {};
    place.asked = ask::everything_and_access;
    return look_up_address(cu, end.span.first, place.asked, place.facts.emplace());
}

// Whether the copy becomes part of a graph, and whether the work before it is complete, where that makes a difference:
// the first facts of a plan. Not needed for a plain line on the context's own device.
[[gnu::noinline]] error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream,
                                       plan_facts &facts) noexcept;

// The planning inputs that need no driver query.
void begin_choice(const ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

// Where there is a choice, once the stream was looked at.
[[gnu::noinline]] error choose(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                               plan_facts &facts, kernel_views &views, copy_plan &plan) noexcept;

struct planned_copy {
    const ferry::shape &shape;
    const plan_facts &facts;
    const copy_plan &plan;
    const kernel_views &views;
};

// By the plan's route.
error run_planned(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                  staged_progress *watch = nullptr) noexcept;

// Whether its host memory is registered in part, or in pieces, so that it has to be cut to be staged or for the driver to
// take it.
bool is_in_parts(const ferry_instance &instance, const shape &shape) noexcept;

// Each part as it would be planned by itself, until `then(part)` fails. What is registered is never staged. The stream was
// looked at, also for what needs no choice as a whole.
template <class Then>
error for_each_planned_copy(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                            const copy_site &site, const Then &then) noexcept {
    const host_ranges &ranges = instance.pinned.ranges();
    const auto end_of_stretch = [&](std::uint64_t address) noexcept {
        if (const std::uint64_t end = ranges.end_of_piece(address)) return end;
        const std::uint64_t next = ranges.next_registration(address);
        return next == UINT64_MAX ? 0 : next;
    };
    return for_each_part(whole, end_of_stretch, [&](shape part) noexcept -> error {
        for (shape_end *const end : {&part.source, &part.destination})
            if (is_host(end->kind))
                if (error failed = look_up_kind(instance.cu, end->span.first, end->kind)) return failed;
        plan_facts of_part = facts;
        resolved_ends ends;
        kernel_views views;
        copy_plan plan;
        if (!is_pageable(part) && of_part.preferences.forced == route_kind::staged)
            of_part.preferences.forced = route_kind::none;
        if (needs_no_choice(part, of_part.preferences))
            plan = plan_for_driver(part, of_part);
        else if (error failed = choose(instance, part, ends, site.context, of_part, views, plan))
            return failed;
        return then(planned_copy{part, of_part, plan, views});
    });
}

// The whole, or each of the parts that it is run in.
template <class Then>
error for_each_planned_call(ferry_instance &instance, const planned_copy &whole, const copy_site &site,
                            const Then &then) noexcept {
    const bool in_parts = whole.plan.route == route_kind::driver
                              ? crosses_border(whole.shape, instance.pinned.ranges())
                              : whole.plan.route == route_kind::staged && is_in_parts(instance, whole.shape);
    if (!in_parts) return then(whole);
    plan_facts facts = whole.facts;
    if (error failed = look_at_stream(instance, whole.shape, site.stream, facts)) return failed;
    return for_each_planned_copy(instance, whole.shape, facts, site, then);
}

// Whether a graph takes the call; nothing is enqueued.
[[gnu::cold, gnu::noinline]] error check_capture(ferry_instance &instance, const planned_copy &call,
                                                 const copy_site &site) noexcept;

// One after the other, by its own route. Should one fail, those before it stay enqueued.
[[gnu::cold, gnu::noinline]] error run_in_parts(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                                                const copy_site &site) noexcept;

} // namespace ferry
