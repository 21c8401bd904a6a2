#include "routes/driver.h"

#include <algorithm>

#include "device/stream_order.h"
#include "routes/ends.h"

namespace ferry {

error enter_for_graph(machine &machine, const shape &asked, const call_facts &call, const copy_site &site,
                      context_scope &scope) noexcept {
    if (is_read_in_the_call(asked))
        return refuse(FERRY_ERROR_CAPTURE, FERRY_SIDE_SOURCE, FERRY_FIELD_ADDRESS, numbers::obstacle, 0,
                      static_cast<std::uint64_t>(obstacle::pageable));
    if (!leaves_device(asked, call.context_device)) return {};
    ferry::shape shape = asked;
    if (shape.destination.kind == memory_kind::host) { // not looked up so far, see look_up_ends
        resolved_place here = {};
        if (error failed = know_kind(machine.cu, shape.destination, here, shape.destination.kind)) return failed;
        if (error failed = look_up_pool_ends(machine, call.context_device, shape)) return failed;
    }
    end_contexts others;
    if (site.node || !belongs_to_current_context(site.stream))
        if (error failed = find_contexts(machine, shape, -1, others)) return failed;
    const auto is_served = [&](const shape_end &end, const shape_end &other, int device) noexcept {
        if (end.kind == memory_kind::device)
            return can_driver_copy(machine.cu, end.span.first, end.device < 0 || end.device == device);
        if (!is_elsewhere(other, device)) return true;
        // In contexts other than the other end's, the memory is pageable, and a graph would read it too early.
        if (end.kind == memory_kind::far_pinned) return &end == &shape.destination;
        if (end.kind != memory_kind::pageable) return true;
        resolved_place here = {};
        memory_kind kind = end.kind; // see look_up_pool_ends
        return !know_kind(machine.cu, end, here, kind) && kind != memory_kind::host_pool;
    };
    for (const CUcontext context : {site.context, others.source, others.destination}) {
        if (!context) continue;
        bool serves_both = false;
        {
            context_scope trial(machine.cu);
            int device = -1;
            if (error failed = trial.enter(context)) return failed;
            if (error failed = machine.contexts.device_of_current(context, device)) return failed;
            serves_both = is_served(shape.source, shape.destination, device) &&
                          is_served(shape.destination, shape.source, device);
        }
        if (serves_both) return scope.enter(context);
    }
    return {.status = FERRY_ERROR_CAPTURE};
}

namespace {

// Takes note of a copy in a graph that writes pageable memory at each launch.
error note_writes_of_graph(const driver_table &cu, const shape_end &destination) noexcept {
    resolved_place here = {};
    memory_kind kind = destination.kind; // may not have been looked up so far, see look_up_ends
    if (kind == memory_kind::host)
        if (error failed = know_kind(cu, destination, here, kind)) return failed;
    if (is_host(kind) && !is_pinned(kind)) copies_in_flight::note_untracked();
    return {};
}

// The context of the copy, or of its graph, must be current.
[[gnu::always_inline]] inline error issue(machine &machine, const shape &shape, const call_facts &call,
                                          const copy_plan &plan, const copy_site &site) noexcept {
    end_contexts contexts = {site.context, site.context};
    error failed;
    if (plan.names_contexts) failed = find_contexts(machine, shape, call.context_device, contexts);
    if (!failed && plan.wait_before) failed = pass_earlier_work(machine.cu, site.stream, copies_in_flight::are_any());
    if (!failed) failed = run_driver_route(machine.cu, shape, plan, call.form, contexts, site.stream);
    if (!failed && plan.wait_in_the_call) failed = pass_earlier_work(machine.cu, site.stream, false);
    return failed;
}

[[gnu::cold, gnu::noinline]] error copy_in_graph(machine &machine, const shape &shape, const call_facts &call,
                                                 const copy_plan &plan, const copy_site &site) noexcept {
    context_scope scope(machine.cu);
    if (error failed = enter_for_graph(machine, shape, call, site, scope)) return failed;
    if (error failed = note_writes_of_graph(machine.cu, shape.destination)) return failed;
    return site.node ? set_copy_node(machine.cu, shape, *site.node) : issue(machine, shape, call, plan, site);
}

} // namespace

error copy_by_driver(machine &machine, const shape &shape, const call_facts &call, const copy_plan &plan,
                     const copy_site &site) noexcept {
    return call.is_captured ? copy_in_graph(machine, shape, call, plan, site) : issue(machine, shape, call, plan, site);
}

error run_driver(machine &machine, const copy_step &step, const copy_site &site) noexcept {
    if (step.plan.are_threads_late) machine.staging.measure_thread_delay();
    const error result = step.call.is_captured ? copy_in_graph(machine, step.shape, step.call, step.plan, site)
                                               : issue(machine, step.shape, step.call, step.plan, site);
    if (step.call.form == copy_form::asynchronous && is_small_upload(step.shape))
        machine.uploads.note({site.stream, step.call.context_device}, step.shape.bytes(), step.call.is_stream_idle);
    if (step.plan.are_threads_asleep) machine.staging.note_use();
    return result;
}

blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept {
    if (form == copy_form::synchronous || destination == memory_kind::pageable) return blocking::until_done;
    if (is_copied_as_host(source) && is_copied_as_host(destination)) return blocking::until_done;
    return source == memory_kind::pageable ? blocking::until_staged : blocking::no;
}

blocking blocking_of(const shape &shape, const call_facts &call, const copy_plan &plan, memory_kind source,
                     memory_kind destination) noexcept {
    if (call.form == copy_form::synchronous) return blocking::until_done;
    const bool has_room = call.has_command_room || (call.is_stream_idle && may_go_with_commands(shape, call));
    if (has_room && plan.route == route_kind::driver) return blocking::no;
    if (plan.route == route_kind::driver)
        return plan.wait_in_the_call ? blocking::until_done : blocking_of(source, destination, call.form);
    if (!plan.wait_in_the_call) return blocking::no;
    return shape.destination.kind == memory_kind::pageable ? blocking::until_done : blocking::until_staged;
}

// A graph waits when it runs. On an idle stream, the driver's commands have room for the bytes that they contain.
bool waits(const shape &shape, const call_facts &call, const copy_plan &plan) noexcept {
    const bool by_driver = plan.route == route_kind::driver;
    if (call.form == copy_form::asynchronous && by_driver &&
        (call.is_captured || (call.is_stream_idle && is_sent_with_commands(shape))))
        return false;
    return plan.wait_before ||
           blocking_of(shape, call, plan, shape.source.kind, shape.destination.kind) != blocking::no;
}

namespace {

prediction predict_driver(const copy_question &copy) noexcept {
    const plan_facts &facts = copy.facts;
    const device_profile &profile = *facts.profile;
    const auto &[direction, of_direction, rows] = copy.rates();
    const double bytes = rows.bytes();
    const bool has_pageable_end = is_pageable(copy.shape) || facts.kernels.source_reach == obstacle::pageable ||
                                  facts.kernels.destination_reach == obstacle::pageable;
    double ns = static_cast<double>(rows.count) * driver_row_ns(*of_direction, direction, rows);
    const auto limit = [&](std::uint32_t rate) noexcept { ns = std::max(ns, bytes * 1000 / rate); };
    std::uint32_t fixed_ns =
        goes_by_many_rows(direction, rows) ? profile.many_rows_fixed_ns : of_direction->driver_fixed_ns;
    if (has_pageable_end && !facts.kernels.reaches_pageable) limit(of_direction->driver_pageable_rate);
    if (facts.links.relay == obstacle::none) { // neither device has access to the other
        limit(facts.links.pair.bounce_rate ? facts.links.pair.bounce_rate : profile.bounce_rate);
    } else if (facts.links.pair.direct_rate) {
        // Rows were not measured. Over the same link they are no faster than a contiguous copy.
        fixed_ns = facts.links.pair.direct_fixed_ns;
        if (rows.is_line) ns = 0;
        limit(facts.links.pair.direct_rate);
    }
    if (rows.has_array && direction >= copy_direction::within_device) limit(profile.array_driver_rate);
    return {fixed_ns + ns, 0, false, 0};
}

} // namespace

const route driver_route = {
    .kind = route_kind::driver,
    .why_not =
        [](const copy_question &copy) noexcept { return copy.shape.has_file() ? obstacle::file : obstacle::none; },
    .predict = predict_driver,
    .run = [](machine &machine, const copy_step &step, const copy_site &site,
              staged_progress *) noexcept { return run_driver(machine, step, site); },
    .plan = [](const copy_question &copy,
               copy_plan &plan) noexcept { plan = plan_for_driver(copy.shape, copy.facts.call); },
    .call_name = [](const copy_step &step) noexcept { return driver_call_name(step.plan, step.call.form); },
};

} // namespace ferry
