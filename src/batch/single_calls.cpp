#include "batch/single_calls.h"

namespace ferry {

error single_calls::check(single_call one) noexcept {
    plan_facts facts = this->facts();
    copy_plan plan;
    kernel_views views;
    if (error failed = this->plan(one, facts, views, plan)) return failed;
    return check_capture(of_.instance, {one.shape, facts, plan, views}, site());
}

error single_calls::run(single_call one) noexcept {
    plan_facts facts = this->facts();
    copy_plan plan;
    kernel_views views;
    if (error failed = this->plan(one, facts, views, plan)) return failed;
    const error failed = run_planned_call({one.shape, facts, plan, views});
    // From here on, the stream's earlier work is complete. Later work belongs to this batch, whose copies have no order
    // among themselves.
    is_earlier_work_done_ |= facts.is_stream_idle || (!failed && plan.wait_before);
    return failed;
}

error single_calls::check_own(const batch_box &box) noexcept {
    return check_capture(of_.instance, {box.shape, facts(), box.plan, of_.request.own_views[box.to]}, site());
}

// Uses the views that were looked up when the box was planned.
error single_calls::run_own(const batch_box &box) noexcept {
    plan_facts facts = this->facts();
    facts.preferences = box.preferences;
    return run_planned_call({box.shape, facts, box.plan, of_.request.own_views[box.to]});
}

// A copy that was planned as a driver call stays one, except for pageable memory.
error single_calls::plan(single_call &one, plan_facts &facts, kernel_views &views, copy_plan &plan) noexcept {
    ferry_instance &instance = of_.instance;
    if (leaves_device(one.shape, facts.context_device))
        if (error failed = look_up_pool_ends(instance, facts.context_device, one.shape)) return failed;
    facts.preferences = one.preferences;
    if (is_pageable(one.shape) || has_far_end(one.shape)) return choose_for_pageable(one, facts, views, plan);
    plan = plan_for_driver(one.shape, facts);
    if (!may_be_relayed(one.shape, facts))
        return one.preferences.forced == route_kind::relayed ? refuse_route(obstacle::not_between_devices) : ok;
    resolved_ends ends;
    return choose(instance, one.shape, ends, of_.site.context, facts, views, plan);
}

// Chooses as for a single copy. If the call waits for the whole batch, the copy is staged only where that is faster.
error single_calls::choose_for_pageable(const single_call &one, plan_facts &facts, kernel_views &views,
                                        copy_plan &plan) noexcept {
    const shape &shape = one.shape;
    // The driver writes pageable memory inside its call, so there the copies of this batch count as well.
    facts.is_source_final = is_earlier_work_done_;
    if (!is_earlier_work_done_ || shape.destination.kind == memory_kind::pageable)
        if (error failed = look_at_stream(of_.instance, shape, of_.site.stream, facts)) return failed;
    if (of_.site.is_waited_for) facts.form = copy_form::synchronous;
    resolved_ends ends;
    if (of_.is_at_home()) know_ends(of_.request, shape, one.known, ends);
    const error failed = choose(of_.instance, shape, ends, of_.site.context, facts, views, plan);
    facts.form = of_.form;
    // Plans the driver call again for the form in which it is submitted: on a stream, the call waits before it reads
    // the source.
    if (plan.route == route_kind::driver) plan = plan_for_driver(shape, facts);
    plan.synchronise_after &= of_.form == copy_form::synchronous;
    return failed;
}

// If the program's threads do the work, the thread that waits for the batch helps.
error single_calls::run_planned_call(const planned_copy &call) noexcept {
    const bool is_helped = of_.site.is_waited_for && of_.instance.report.program_threads && !of_.site.is_captured;
    if (!is_helped) return run_planned(of_.instance, call, site());
    return for_each_planned_call(of_.instance, call, site(),
                                 [&](const planned_copy &part) noexcept { return run_helped(part); });
}

error single_calls::run_helped(const planned_copy &part) noexcept {
    ferry_instance &instance = of_.instance;
    if (part.plan.route != route_kind::staged) return run_planned(instance, part, site());
    staged_progress progress;
    error failed = run_planned(instance, part, site(), &progress);
    const error helped = instance.staging.help(progress); // afterwards, no thread writes to it
    if (lacks_memory(failed) && part.facts.preferences.forced == route_kind::none)
        failed = run_planned(instance, {part.shape, part.facts, plan_for_driver(part.shape, part.facts), part.views},
                             site());
    return failed ? failed : helped;
}

} // namespace ferry
