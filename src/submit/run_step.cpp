#include "submit/run_step.h"

#include <algorithm>

#include "copy/split.h"
#include "routes/driver.h"
#include "routes/ends.h"
#include "submit/choice.h"
#include "system/threads.h"

namespace ferry {

namespace {

// A prepared batch may contain a step that cannot become part of a graph.
bool goes_by_driver(const copy_step &step) noexcept {
    return step.plan.route == route_kind::driver || (step.call.is_captured && !can_be_in_graph(step.plan));
}

// Whether the driver performs a copy that failed because its route ran out of memory. It copies everything again,
// including bytes that were staged. A copy whose progress is reported must not have started.
bool falls_back(const copy_step &step, const error &failed, const staged_progress *progress) noexcept {
    const bool may_begin_again = !progress || lacks_room(failed);
    return !step.shape.has_file() && lacks_memory(failed) && may_begin_again &&
           find_route(step.plan.route)->may_fall_back && step.call.preferences.forced != step.plan.route;
}

// Whether the call must not wait, although it would if the driver made the copy. The changed step
// takes much stack, so this is a function of its own.
[[gnu::noinline]] bool must_not_go_by_driver(const copy_step &step) noexcept {
    return step.call.preferences.no_wait && waits(step.shape, step.call, by_driver(step).plan);
}

// Records which route a successful copy has used. `begin_ns` is the time when a call that may wait began; otherwise 0.
[[gnu::always_inline]] inline void note_route(ferry_instance &instance, route_kind route, const copy_step &step,
                                              const copy_site &site, std::uint64_t begin_ns) noexcept {
    instance.counters.add(step.call.context_device, route, site.stream, 1, step.shape.bytes(),
                          begin_ns ? clock_ns() - begin_ns : 0);
    if (instance.trace) [[unlikely]]
        instance.trace.note(route, site.context);
    if (site.taken) [[unlikely]]
        *site.taken = std::max(*site.taken, route);
}

// Whether the call waits, or may wait in the driver. Other calls take less time than it takes to measure it.
bool may_wait(const copy_step &step) noexcept {
    return step.call.form == copy_form::synchronous || needs_threads(step.shape);
}

// The facts for the first part of a copy that runs in parts. A call that must not wait is checked before its first part,
// with the facts for the parts after it.
error look_at_parts(ferry_instance &instance, const copy_step &whole, const copy_site &site,
                    call_facts &call) noexcept {
    if (error failed = look_at_stream(instance, whole.shape, site.stream, call)) return failed;
    if (call.preferences.no_wait) call.is_stream_idle = call.has_command_room = false;
    return {};
}

// Changes the facts for the parts after `part`.
void pass_part(const copy_step &part, call_facts &call) noexcept {
    call.is_source_final |= part.plan.wait_before;
    call.is_stream_idle = false;
}

// Runs the parts one after another, each with its own route. If a part fails, the parts before it stay enqueued.
[[gnu::cold, gnu::noinline]] error run_in_parts(ferry_instance &instance, const copy_step &whole,
                                                const copy_site &site) noexcept {
    call_facts call = whole.call;
    if (error failed = look_at_parts(instance, whole, site, call)) return failed;
    if (call.is_captured || call.preferences.no_wait) {
        const auto check = [&](const copy_step &part) noexcept { return check_step(instance, part, site); };
        if (error failed = for_each_part_step(instance, whole.shape, call, site, check)) return failed;
    }
    bool has_begun = false;
    return for_each_part_step(instance, whole.shape, call, site, [&](const copy_step &part) noexcept {
        error failed = run_step(instance, part, site);
        // A copy whose first part is enqueued must not fail because no slot is free: the driver copies the remaining
        // parts, even if it waits.
        if (has_begun && lacks_memory(failed) && part.plan.route != route_kind::driver)
            failed = run_step(instance, by_driver(part), site);
        has_begun = true;
        pass_part(part, call);
        return failed;
    });
}

// Instead of the planned route. A function of its own, because the changed step takes much stack.
[[gnu::noinline]] error run_by_driver_instead(ferry_instance &instance, const copy_step &step,
                                              const copy_site &site) noexcept {
    return run_step(instance, by_driver(step), site);
}

[[gnu::hot, gnu::noinline]] error run_by_other_route(ferry_instance &instance, const copy_step &step,
                                                     const copy_site &site, staged_progress *progress) noexcept {
    if (goes_by_driver(step)) return run_by_driver_instead(instance, step, site);
    // If progress is reported, this was already decided, regardless of later registrations.
    if (step.plan.route == route_kind::staged && !progress && is_in_parts(instance, step.shape))
        return run_in_parts(instance, step, site);
    const std::uint64_t begin_ns = may_wait(step) ? clock_ns() : 0;
    const error failed = find_route(step.plan.route)->run(instance, step, site, progress);
    if (falls_back(step, failed, progress) && !must_not_go_by_driver(step))
        return run_by_driver_instead(instance, step, site);
    if (lacks_room(failed) && step.call.preferences.no_wait)
        return refuse_route(failed.status == FERRY_ERROR_LIMIT ? obstacle::busy : obstacle::not_prepared);
    if (!failed) note_route(instance, step.plan.route, step, site, begin_ns);
    return failed;
}

[[gnu::always_inline]] inline error run_by_driver(ferry_instance &instance, const copy_step &step,
                                                  const copy_site &site) noexcept {
    const std::uint64_t begin_ns = may_wait(step) ? clock_ns() : 0;
    error failed = run_driver(instance, step, site);
    if (!failed)
        note_route(instance, route_kind::driver, step, site, begin_ns);
    else if (failed.status == to_status(CUDA_ERROR_INVALID_VALUE) &&
             crosses_border(step.shape, instance.pinned.ranges()))
        failed = run_in_parts(instance, step, site); // the driver rejects host memory that is registered in pieces
    return failed;
}

} // namespace

error run_step(ferry_instance &instance, const copy_step &step, const copy_site &site,
               staged_progress *progress) noexcept {
    return step.plan.route == route_kind::driver ? run_by_driver(instance, step, site)
                                                 : run_by_other_route(instance, step, site, progress);
}

error check_capture(ferry_instance &instance, const copy_step &step, const copy_site &site) noexcept {
    if (!step.call.is_captured) return {};
    if (is_written_in_the_call(step.shape, step.call)) return written_under_capture;
    if (step.plan.route == route_kind::buffered || step.plan.wait_in_the_call) return read_under_capture;
    context_scope trial(instance.cu);
    return goes_by_driver(step) ? enter_for_graph(instance, step.shape, step.call, site, trial) : ok;
}

error check_step(ferry_instance &instance, const copy_step &step, const copy_site &site) noexcept {
    if (step.call.preferences.no_wait && waits(step.shape, step.call, step.plan)) return refuse_route(obstacle::waits);
    return check_capture(instance, step, site);
}

bool is_in_parts(const ferry_instance &instance, const shape &shape) noexcept {
    if (shape.has_file()) return false; // only threads access the host's memory
    const host_ranges &ranges = instance.pinned.ranges();
    const auto has_registrations = [&](const shape_end &end) noexcept {
        return !end.array && end.kind == memory_kind::pageable &&
               ranges.next_registration(end.span.first) <= end.span.last;
    };
    return crosses_border(shape, ranges) || has_registrations(shape.source) || has_registrations(shape.destination);
}

error for_each_part_step(ferry_instance &instance, const shape &whole, const call_facts &call, const copy_site &site,
                         function_ref<error(const copy_step &)> then) noexcept {
    const host_ranges &ranges = instance.pinned.ranges();
    const auto end_of_stretch = [&](std::uint64_t address) noexcept {
        if (const std::uint64_t end = ranges.end_of_piece(address)) return end;
        const std::uint64_t next = ranges.next_registration(address);
        return next == UINT64_MAX ? 0 : next;
    };
    return for_each_part(whole, end_of_stretch, [&](const shape &cut) noexcept -> error {
        copy_step part = {cut, call, {}, {}};
        resolved_ends ends = {};
        if (is_host(part.shape.source.kind))
            if (error failed = know_kind(instance.cu, part.shape.source, ends.source, part.shape.source.kind))
                return failed;
        if (is_host(part.shape.destination.kind))
            if (error failed =
                    know_kind(instance.cu, part.shape.destination, ends.destination, part.shape.destination.kind))
                return failed;
        if (leaves_device(part.shape, call.context_device))
            if (error failed = look_up_pool_ends(instance, call.context_device, part.shape)) return failed;
        if (!is_pageable(part.shape) && call.preferences.forced == route_kind::staged)
            part.call.preferences.forced = route_kind::none;
        if (needs_no_choice(part.shape, part.call.preferences))
            part.plan = plan_for_driver(part.shape, part.call);
        else if (error failed = choose(instance, ends, site.context, part))
            return failed;
        return then(part);
    });
}

error for_each_step(ferry_instance &instance, const copy_step &whole, const copy_site &site,
                    function_ref<error(const copy_step &)> then) noexcept {
    const bool in_parts = whole.plan.route == route_kind::driver
                              ? crosses_border(whole.shape, instance.pinned.ranges())
                              : whole.plan.route == route_kind::staged && is_in_parts(instance, whole.shape);
    if (!in_parts) return then(whole);
    call_facts call = whole.call;
    if (error failed = look_at_parts(instance, whole, site, call)) return failed;
    return for_each_part_step(instance, whole.shape, call, site, [&](const copy_step &part) noexcept {
        const error failed = then(part);
        pass_part(part, call);
        return failed;
    });
}

} // namespace ferry
