// The last part of a batch: checks and runs its steps.
#include <algorithm>

#include "batch/launches.h"
#include "batch/pageable.h"
#include "batch/single_calls.h"

namespace ferry {

namespace {

class step_walker {
public:
    step_walker(const batch_submission &of, const batch_steps &steps) noexcept : of_(of), steps_(steps), singles_(of) {}

    error check(shape &refused) noexcept;
    error explain_calls(batch_step &step, blocking &longest) noexcept;
    error run() noexcept;

private:
    error run_one(const batch_step &step) noexcept;
    error call_each(const batch_step &step) noexcept;
    error run_batch_call(const batch_step &step) noexcept;
    error run_staged(const batch_step *first) noexcept;

    bool has_several_copies() const noexcept { return of_.request.pieces.size() + of_.request.boxes.size() > 1; }
    // For the counters and the program's trace.
    error noted(const error &failed, const batch_step &step, route_kind route) const noexcept {
        if (failed) return failed;
        of_.instance.counters.add(of_.request.context_device, route, of_.site.stream, step.copies, step.bytes);
        if (of_.instance.trace) of_.instance.trace.note(route, of_.site.context);
        return {};
    }
    // Calls `action` for each copy of the step as a single call.
    template <class Action> error for_each_copy(const batch_step &step, const Action &action) noexcept;

    const batch_submission &of_;
    const batch_steps &steps_;
    single_calls singles_;
};

// The ranges are known only for the request's own context. A box with its own plan has the index of its views there.
single_call call_of(const batch_box &box) noexcept {
    if (box.route == batch_route::own) return {box.shape, {}};
    return {box.shape, {box.to, box.from}};
}

template <class Action> error step_walker::for_each_copy(const batch_step &step, const Action &action) noexcept {
    const auto of_box = [&](const batch_box &box) noexcept { return action(call_of(box)); };
    if (error failed = steps_.for_each_box(step, of_.request.boxes, of_box)) return failed;
    if (!step.has_pieces) return {};
    const auto group = static_cast<int>(step.group);
    const grouped_pieces &pieces = of_.request.pieces;
    const known_ranges &ranges = of_.request.ranges;
    for (const batch_piece *piece = pieces.begin(group); piece != pieces.end(group); ++piece)
        if (error failed = action(single_call{shape_of(*piece, ranges), {piece->to, piece->from}})) return failed;
    return {};
}

error step_walker::check(shape &refused) noexcept {
    const bool is_captured = of_.site.is_captured, no_wait = of_.site.no_wait && !is_captured;
    const bool may_be_refused = is_captured || no_wait || of_.request.preferences.may_be_refused();
    if (!may_be_refused && !of_.request.has_files) return {};
    // Copies of pageable memory that are not staged together may use up what the copies after them need.
    const bool are_many = has_several_copies();
    const auto check_together = [&](const shape &shape) noexcept -> error {
        if (!no_wait || !are_many || !is_pageable(shape)) return {};
        const bool is_prepared = of_.instance.is_staging_ready[of_.request.context_device];
        return refuse_route(is_prepared ? obstacle::waits : obstacle::not_prepared);
    };
    const auto check_one = [&](const single_call &one) noexcept {
        error failed = check_together(one.shape);
        if (!failed) failed = singles_.check(one);
        if (failed) refused = one.shape;
        return failed;
    };
    const auto check_own = [&](const batch_box &box) noexcept {
        error failed = check_together(box.shape);
        if (box.plan.refused != obstacle::none) failed = refuse_route(box.plan.refused);
        if (!failed) failed = singles_.check_own(box);
        if (failed) refused = box.shape;
        return failed;
    };
    for (const batch_step &step : steps_) {
        error failed;
        if (step.route == batch_route::calls && may_be_refused)
            failed = for_each_copy(step, check_one);
        else if (step.route == batch_route::own && (is_captured || no_wait || of_.request.has_files))
            failed = steps_.for_each_box(step, of_.request.boxes, check_own);
        if (failed) return failed;
    }
    return {};
}

error step_walker::explain_calls(batch_step &step, blocking &longest) noexcept {
    const std::uint64_t together = has_several_copies() ? step.bytes : 0;
    const bool is_pageable_group = step.has_pieces && is_pageable(step.group);
    const auto note = [&](blocking wait) noexcept { longest = std::max(longest, wait); };
    bool are_all_by_driver = true, are_all_known = true;
    std::uint64_t predicted_ns = 0;
    const auto of_call = [&](const single_call &one) noexcept -> error {
        call_forecast found;
        if (error failed = singles_.explain(one, together, found)) return failed;
        note(found.wait);
        are_all_by_driver &= found.is_by_driver;
        are_all_known &= found.predicted_ns != 0;
        predicted_ns += found.predicted_ns;
        return {};
    };
    const auto of_own = [&](const batch_box &box) noexcept -> error {
        if (box.plan.wait_in_the_call)
            note(is_host(box.shape.source.kind) ? blocking::until_staged : blocking::until_done);
        return {};
    };
    if (step.route == batch_route::calls) {
        if (error failed = for_each_copy(step, of_call)) return failed;
        const bool is_known_by_group = are_all_by_driver && step.predicted_ns != 0;
        if (is_pageable_group && !is_known_by_group) step.predicted_ns = are_all_known ? predicted_ns : 0;
        return {};
    }
    if (step.route == batch_route::staged && step.is_helped)
        note(step.group == piece_group::pageable_up ? blocking::until_staged : blocking::until_done);
    return step.route == batch_route::own ? steps_.for_each_box(step, of_.request.boxes, of_own) : ok;
}

error step_walker::run() noexcept {
    for (const batch_step &step : steps_) {
        if (step.route == batch_route::staged) return run_staged(&step); // staged steps are the last steps
        if (error failed = run_one(step)) return failed;
    }
    return {};
}

error step_walker::run_one(const batch_step &step) noexcept {
    switch (step.route) {
    case batch_route::kernel:
        return noted(step.has_boxes ? run_box_kernel(of_, steps_, step) : run_piece_kernel(of_, step), step,
                     route_kind::kernel);
    case batch_route::batch_call:
        return run_batch_call(step);
    case batch_route::own:
        return steps_.for_each_box(step, of_.request.boxes,
                                   [&](const batch_box &box) noexcept { return singles_.run_own(box); });
    default:
        return call_each(step);
    }
}

error step_walker::call_each(const batch_step &step) noexcept {
    return for_each_copy(step, [&](const single_call &one) noexcept { return singles_.run(one); });
}

// The driver may reject copies in a batch that it accepts individually. Single calls also report which copy is invalid.
error step_walker::run_batch_call(const batch_step &step) noexcept {
    const batch_request &request = of_.request;
    const driver_table &cu = of_.instance.cu;
    const CUstream stream = of_.site.stream;
    const call_result result = step.has_boxes
                                   ? run_box_batch(cu, request.operations.begin(), request.operations.size(), stream)
                                   : run_line_batch(cu, request.lines, step.first_line, step.copies, stream);
    const bool is_refused = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED;
    return is_refused ? call_each(step) : noted(to_error(result), step, route_kind::driver);
}

// If no memory for staging is available, the driver copies.
error step_walker::run_staged(const batch_step *first) noexcept {
    staged_progress progress[2];
    const bool is_forced = of_.request.preferences.forced == route_kind::staged;
    error failed;
    for (const batch_step *step = first; step != steps_.end() && !failed; ++step) {
        staged_progress *const helped = step->is_helped ? &progress[step - first] : nullptr;
        failed = noted(run_staged_pieces(of_, *step, helped), *step, route_kind::staged);
        if (lacks_memory(failed) && !is_forced) failed = call_each(*step);
    }
    for (staged_progress &one : progress) { // afterwards, no thread writes to it
        const error helped = of_.instance.staging.help(one);
        if (!failed) failed = helped;
    }
    return failed;
}

} // namespace

error make_checked_steps(const batch_submission &of, batch_steps &steps, shape &refused) noexcept {
    refused.width = 0;
    if (error failed = steps.make(of)) return failed;
    return step_walker(of, steps).check(refused);
}

error explain_calls(const batch_submission &of, batch_steps &steps, blocking &longest) noexcept {
    longest = blocking::no;
    step_walker walker(of, steps);
    for (batch_step &step : steps)
        if (error failed = walker.explain_calls(step, longest)) return failed;
    return {};
}

error run_steps(const batch_submission &of, const batch_steps &steps) noexcept { return step_walker(of, steps).run(); }

} // namespace ferry
