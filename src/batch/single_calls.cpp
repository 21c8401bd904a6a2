#include "batch/single_calls.h"

#include "routes/ends.h"
#include "routes/ranking.h"
#include "routes/relayed.h"
#include "submit/choice.h"
#include "submit/run_step.h"

namespace ferry {

error single_calls::check(const single_call &one) noexcept {
    copy_step step = {one.shape, facts(), {}, {}};
    if (step.call.preferences.no_wait)
        if (error failed = require_contexts(of_.instance.contexts, step.call.preferences, step.shape)) return failed;
    if (error failed = plan(one, step)) return failed;
    return check_step(of_.instance, step, site());
}

error single_calls::explain(const single_call &one, std::uint64_t together, call_forecast &found) noexcept {
    copy_step step = {one.shape, facts(), {}, {}};
    if (error failed = plan(one, step)) return failed;
    const route_kind route = step.plan.route;
    found = {};
    found.is_by_driver = route == route_kind::driver;
    if (is_pageable(step.shape)) {
        const plan_facts facts = facts_of(of_.instance, step.shape, of_.site.context, step.call);
        found.predicted_ns = predict_copy(step.shape, facts)[route].predicted_ns;
        if (together > (route == route_kind::buffered ? max_small_copy : 0)) step = by_driver(step);
    }
    found.wait = blocking_of(step.shape, step.call, step.plan, step.shape.source.kind, step.shape.destination.kind);
    return {};
}

error single_calls::run(const single_call &one) noexcept {
    has_begun_ = true;
    copy_step step = {one.shape, facts(), {}, {}};
    if (error failed = plan(one, step)) return failed;
    const error failed = run(step);
    // From here on, the stream's earlier work is complete. Later work belongs to this batch, whose copies are
    // unordered.
    is_earlier_work_done_ |= step.call.is_stream_idle || (!failed && step.plan.wait_before);
    return failed;
}

error single_calls::check_own(const batch_box &box) noexcept {
    return check_step(of_.instance, {box.shape, facts(), box.plan, of_.request.own_views[box.to]}, site());
}

// Uses the views that were looked up when the box was planned.
error single_calls::run_own(const batch_box &box) noexcept {
    has_begun_ = true;
    return run(copy_step{box.shape, facts(), box.plan, of_.request.own_views[box.to]}, box.index);
}

// A copy that was planned as a driver call remains a driver call, unless an end is pageable memory, or it may be relayed,
// or the options force another route. A prepared batch that is launched in another context was planned for its own context,
// so the driver copies it.
error single_calls::plan(const single_call &one, copy_step &step) noexcept {
    ferry_instance &instance = of_.instance;
    if (leaves_device(step.shape, step.call.context_device))
        if (error failed = look_up_pool_ends(instance, step.call.context_device, step.shape)) return failed;
    if (is_pageable(step.shape) || has_far_end(step.shape)) return choose_for_pageable(one, step);
    step.plan = plan_for_driver(step.shape, step.call);
    const bool is_forced = step.call.preferences.may_be_refused() && of_.is_at_home();
    if (!is_forced && !may_be_relayed(step.shape, step.call)) return {};
    resolved_ends ends;
    return choose(instance, ends, of_.site.context, step);
}

// Whether the caller may read the source for an array although the stream's earlier work is not complete. The driver does
// not know the memory in any context. Copies to linear memory have explanations and waits of their own.
bool single_calls::may_read_early(const copy_step &step) noexcept {
    const shape_end &source = step.shape.source;
    if (of_.site.is_waited_for || of_.form == copy_form::synchronous || source.kind != memory_kind::pageable ||
        !step.shape.destination.array || step.call.preferences.order != source_order::any)
        return false;
    address_facts facts;
    return !look_up_address(of_.instance.cu, source.span.first, address_query::kind_only, facts) &&
           facts.kind == memory_kind::pageable;
}

// Chooses as for a single copy. If the call waits for the whole batch, the copy is staged only if that is faster.
error single_calls::choose_for_pageable(const single_call &one, copy_step &step) noexcept {
    call_facts &call = step.call;
    // The driver writes pageable memory within its call, so here the copies of this batch count as well.
    if (!is_earlier_work_done_ || step.shape.destination.kind == memory_kind::pageable) {
        call.may_read_early = may_read_early(step);
        if (error failed = look_at_stream(of_.instance, step.shape, of_.site.stream, call)) return failed;
    }
    is_earlier_work_done_ |= call.is_stream_idle;
    call.is_source_final = is_earlier_work_done_;
    // The stream will not be idle for the next copies, for which the driver's calls would wait one after another.
    const bool has_others = of_.request.pieces.size() + of_.request.boxes.size() > 1;
    if (of_.site.is_waited_for)
        call.form = copy_form::synchronous;
    else if (has_others && is_read_in_the_call(step.shape) && !is_sent_with_commands(step.shape))
        call.is_stream_idle = false;
    resolved_ends ends;
    if (of_.is_at_home()) know_ends(of_.request, step.shape, one.known, ends);
    const error failed = choose(of_.instance, ends, of_.site.context, step);
    call.form = of_.form;
    // Plans the driver call again for the form in which it is submitted: on a stream, the call waits before it reads
    // the source.
    if (step.plan.route == route_kind::driver) step = by_driver(step);
    step.plan.synchronise_after &= of_.form == copy_form::synchronous;
    return failed;
}

// If the program's threads do the work, the thread that waits for the batch helps.
error single_calls::run(const copy_step &step, std::uint64_t index) noexcept {
    const bool is_helped = of_.site.is_waited_for && of_.instance.report.uses_program_threads && !of_.site.is_captured;
    staged_progress *const progress = step.shape.has_file() ? of_.site.files : nullptr;
    copy_site at = site();
    at.index = index;
    at.reads = &reads_;
    if (!is_helped) return run_step(of_.instance, step, at, progress);
    return for_each_step(of_.instance, step, site(), [&](const copy_step &part) noexcept { return run_helped(part); });
}

error single_calls::run_helped(const copy_step &part) noexcept {
    ferry_instance &instance = of_.instance;
    if (part.plan.route != route_kind::staged) return run_step(instance, part, site());
    staged_progress progress;
    error failed = run_step(instance, part, site(), &progress);
    const error helped = instance.staging.help(progress); // afterwards, no thread writes to it
    if (lacks_memory(failed) && part.call.preferences.forced == route_kind::none)
        failed = run_step(instance, by_driver(part), site());
    return failed ? failed : helped;
}

} // namespace ferry
