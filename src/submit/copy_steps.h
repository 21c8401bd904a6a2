// The steps that single copies share with copies in batches: choosing a route and running it. A plain line on the
// device of its context, without a pageable end, takes only the last one, run_planned.
#pragma once

#include "copy/split.h"
#include "exec/driver_copy.h"
#include "exec/driver_parts.h"
#include "exec/kernel_copy.h"
#include "plan/plan.h"
#include "staging/staged_copy.h"
#include "submit/instance.h"

namespace ferry {

// Finds the device of a place, for a thread without a current context: the stated device, else the one that the driver
// reports. -1: none.
[[gnu::cold, gnu::noinline]] error find_device_of(const ferry_instance &instance, const ferry_place &place,
                                                  int &device) noexcept;

// Looks up the array ends.
[[gnu::noinline]] error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy,
                                       resolved_ends &ends) noexcept;

// Decides the kind of host memory whose other end is on another device than the context's. The driver's call names that
// device's context for both ends, so access from there decides. Without access the memory is pageable, even if the
// copy's own context has access: in that context, driver 580 takes such a copy for one between the devices and ends the
// process. With access from there alone, the memory is far_pinned. Called only for copies that leave their context's
// device.
[[gnu::cold, gnu::noinline]] error look_up_pool_ends(ferry_instance &instance, int context_device,
                                                     shape &shape) noexcept;

// Finds the context of each end. An end on the device of the copy's context keeps that context. Host memory has the
// context of the other end.
error find_contexts(ferry_instance &instance, const shape &shape, int context_device, end_contexts &contexts) noexcept;

// Where a copy is enqueued. The stream's context is current. Unless `taken` is null, run_planned stores there which route
// the copy took: of several parts, the highest number.
struct copy_site {
    CUcontext context;
    CUstream stream;
    route_kind *taken = nullptr;
};

// Makes a context current in which a graph takes the driver's call. Graphs do not take the calls that name contexts.
// They take the plain calls, which find all memory but that of pools: plain calls check pool memory against the current
// context, whichever stream the copy is on. A graph reads a pageable source when it is launched, before the work in
// front of the copy has run, so such a copy is refused (docs/driver.md).
[[gnu::cold, gnu::noinline]] error enter_for_graph(ferry_instance &instance, const shape &shape,
                                                   const plan_facts &facts, const copy_site &site,
                                                   context_scope &scope) noexcept;

// Finds out which ends kernels reach, and at which address. For a copy of pageable memory, this concerns the staging
// kernel and the end on the device. Queries only what `ends` does not hold yet, and keeps the answers there. The copy's
// context, `context`, must be current.
error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept;

// Queries everything about a linear end that is not known yet.
inline error know_everything(const driver_table &cu, const shape_end &end, resolved_place &place) noexcept {
    if (place.query == address_query::everything_and_access) return {};
    place.query = address_query::everything_and_access;
    return look_up_address(cu, end.span.first, place.query, place.facts.emplace());
}

// Replaces a kind that the caller stated with the kind that the driver reports: pageable or pinned, device or managed.
// Arrays keep their kind. Queries only what `place` does not hold yet. The copy's context must be current.
inline error know_kind(const driver_table &cu, const shape_end &end, resolved_place &place,
                       memory_kind &kind) noexcept {
    if (end.array) return {};
    if (error failed = know_everything(cu, end, place)) return failed;
    if (is_host(kind) || place.facts->kind == memory_kind::managed) kind = kind_to_context(*place.facts);
    return {};
}

// Finds out whether the copy becomes part of a graph, and whether the work before it is complete, where that makes a
// difference. These are the first facts of a plan. Not needed for a plain line on the context's own device.
[[gnu::noinline]] error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream,
                                       plan_facts &facts) noexcept;

// The planning inputs that need no driver query.
void begin_choice(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

// Chooses the route of a copy that has a choice. Ranks the routes, makes the driver queries if the first one is not the
// driver route, and takes the first route without a veto. Call look_at_stream before.
[[gnu::noinline]] error choose(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                               plan_facts &facts, kernel_views &views, copy_plan &plan) noexcept;

// Whether staging or buffering failed because something was used up. Another route may serve.
inline bool lacks_memory(const error &failed) noexcept {
    return failed.status == FERRY_ERROR_OUT_OF_MEMORY || failed.status == to_status(CUDA_ERROR_OUT_OF_MEMORY) ||
           failed.status == FERRY_ERROR_LIMIT;
}

struct planned_copy {
    const ferry::shape &shape;
    const plan_facts &facts;
    const copy_plan &plan;
    const kernel_views &views;
};

// Runs a copy by the route of its plan. If a staged or buffered copy lacks memory, the driver makes the copy, unless
// staging was forced or `progress` is given.
[[gnu::hot]] error run_planned(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                               staged_progress *progress = nullptr) noexcept;

// Stages a line that goes to several devices, over the links of some: see ferry::staged_copy. The plan's route must be
// the staged one. FERRY_ERROR_LIMIT or no memory: another way may serve, which makes the whole copy.
struct staged_targets {
    staged_helper helpers[max_staged_helpers];
    std::uint64_t addresses[gpu::max_copies_of_ring];
    std::uint32_t helper_count, count;
};
error run_staged_broadcast(ferry_instance &instance, const planned_copy &copy, const copy_site &site,
                           const staged_targets &to, bool must_start_soon) noexcept;

// Whether the host memory is registered in part, or in several pieces. Such a copy must be split before it can be
// staged or the driver takes it.
bool is_in_parts(const ferry_instance &instance, const shape &shape) noexcept;

// Plans each part as a copy of its own and calls `then(part)`, until one call fails. Registered memory is never staged.
// Call look_at_stream before, even where the whole copy needs no choice.
error for_each_planned_copy(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                            const copy_site &site, function_ref<error(const planned_copy &)> then) noexcept;

// Calls `then` for the whole copy, or for each of the parts in which it is run.
error for_each_planned_call(ferry_instance &instance, const planned_copy &whole, const copy_site &site,
                            function_ref<error(const planned_copy &)> then) noexcept;

// Checks whether a graph takes the call. Enqueues nothing.
[[gnu::cold, gnu::noinline]] error check_capture(ferry_instance &instance, const planned_copy &call,
                                                 const copy_site &site) noexcept;

// Runs the parts one after the other, each by its own route. If one fails, the parts before it stay enqueued.
[[gnu::cold, gnu::noinline]] error run_in_parts(ferry_instance &instance, const shape &whole, const plan_facts &facts,
                                                const copy_site &site) noexcept;

} // namespace ferry
