#include "batch/steps.h"

#include <algorithm>

#include "batch/pageable.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

namespace {

constexpr int direction_of(piece_group pageable) noexcept { return pageable == piece_group::pageable_down; }

} // namespace

batch_route batch_steps::route_of(batch_route planned, piece_group group) const noexcept {
    bool can_serve = true;
    if (planned == batch_route::kernel) can_serve = is_at_home_;
    if (planned == batch_route::batch_call) can_serve = takes_batch_calls_;
    if (planned == batch_route::staged) can_serve = are_staged_[direction_of(group)];
    return can_serve ? planned : batch_route::calls;
}

batch_route batch_steps::route_of(const batch_box &box) const noexcept {
    if (box.route != batch_route::own) return route_of(box.route, box.group);
    const bool leaves_graph = is_captured_ && !find_route(box.plan.route)->may_be_captured;
    const bool can_serve = is_at_home_ && !leaves_graph && box.plan.route != route_kind::driver;
    return can_serve ? batch_route::own : batch_route::calls;
}

bool batch_steps::contains(const batch_step &step, const batch_box &box) const noexcept {
    if (route_of(box) != step.route) return false;
    if (step.route == batch_route::kernel) return box.is_of(step.source, static_cast<int>(step.group));
    return step.route != batch_route::staged || box.group == step.group;
}

batch_steps::box_sums batch_steps::sum_boxes(const growing<batch_box> &boxes) const noexcept {
    box_sums sums;
    for (const batch_box &box : boxes) {
        box_sum &sum = sums.of[static_cast<int>(route_of(box))];
        ++sum.boxes;
        if (box.route == batch_route::staged) {
            ++sums.pageable[direction_of(box.group)];
        } else {
            ++sum.copies;
            sum.bytes += box.bytes();
        }
    }
    return sums;
}

error batch_steps::make(const batch_submission &of) noexcept {
    const batch_request &request = of.request;
    count_ = 0;
    is_at_home_ = of.is_at_home();
    is_captured_ = of.site.is_captured;
    takes_batch_calls_ = takes_batch_calls(of.site.stream, of.site.is_captured);
    staging_choice staging[2];
    for (int direction = 0; direction < 2; ++direction) {
        if (error failed = choose_staging(of, request.pageable[direction], staging[direction])) return failed;
        are_staged_[direction] = staging[direction].is_staged;
    }
    const box_sums sums = sum_boxes(request.boxes);
    // Calls that the driver may reject run first.
    add_boxes(batch_route::calls, sums);
    add_calls_of_pieces(request, sums, staging);
    add_boxes(batch_route::own, sums);
    add_boxes(batch_route::batch_call, sums);
    add_kernels_of_boxes(request);
    add_pieces(request);
    add_staged(request, sums, staging);
    return {};
}

batch_step &batch_steps::add(batch_route route, int group, bool has_boxes) noexcept {
    batch_step &added = all_[count_++];
    added = {};
    added.route = route;
    added.has_pieces = !has_boxes;
    added.has_boxes = has_boxes;
    added.group = static_cast<piece_group>(group);
    return added;
}

void batch_steps::add_boxes(batch_route route, const box_sums &sums) noexcept {
    const box_sum &sum = sums.of[static_cast<int>(route)];
    if (sum.boxes == 0) return;
    batch_step &step = add(route, static_cast<int>(piece_group::apart), true);
    step.copies = sum.copies;
    step.bytes = sum.bytes;
}

void batch_steps::add_calls_of_pieces(const batch_request &request, const box_sums &sums,
                                      const staging_choice (&staging)[2]) noexcept {
    for (int group = 0; group < piece_groups; ++group) {
        const batch_plan &plan = request.plans[group];
        const group_facts &pieces = request.pieces.facts(group);
        const auto kind = static_cast<piece_group>(group);
        const bool is_for_staging = plan.route == batch_route::staged;
        if (route_of(plan.route, kind) != batch_route::calls || (pieces.count == 0 && !is_for_staging)) continue;
        batch_step &step = add(batch_route::calls, group, false);
        step.copies = pieces.count;
        step.bytes = pieces.bytes;
        if (plan.route == batch_route::calls) step.predicted_ns = plan.predicted_ns;
        if (!is_for_staging) continue;
        const int direction = direction_of(kind);
        step.copies += sums.pageable[direction];
        step.bytes = request.pageable[direction].bytes;
        step.predicted_ns = staging[direction].calls_ns;
    }
}

void batch_steps::add_kernels_of_boxes(const batch_request &request) noexcept {
    for (int group = 0; group < piece_groups && is_at_home_; ++group)
        for (const box_source source : {from_memory, from_array}) {
            const box_launch &launch = request.box_launches[source][group];
            if (launch.count == 0) continue;
            batch_step &step = add(batch_route::kernel, group, true);
            step.source = source;
            step.blocks = launch.blocks;
            step.copies = launch.count;
            step.bytes = launch.bytes;
            step.predicted_ns = launch.predicted_ns;
        }
}

void batch_steps::add_pieces(const batch_request &request) noexcept {
    std::size_t first_line = 0;
    for (int group = 0; group < piece_groups; ++group) {
        const batch_plan &plan = request.plans[group];
        const group_facts &pieces = request.pieces.facts(group);
        const batch_route route = route_of(plan.route, static_cast<piece_group>(group));
        if (pieces.count == 0 || (route != batch_route::batch_call && route != batch_route::kernel)) continue;
        batch_step &step = add(route, group, false);
        step.copies = pieces.count;
        step.bytes = pieces.bytes;
        step.predicted_ns = plan.predicted_ns;
        if (route == batch_route::kernel) {
            step.blocks = plan.blocks;
        } else {
            step.first_line = first_line;
            first_line += pieces.count;
        }
    }
}

void batch_steps::add_staged(const batch_request &request, const box_sums &sums,
                             const staging_choice (&staging)[2]) noexcept {
    for (const piece_group group : {piece_group::pageable_up, piece_group::pageable_down}) {
        const int direction = direction_of(group);
        const staging_choice &choice = staging[direction];
        if (!choice.is_staged) continue;
        const pageable_copies &copies = request.pageable[direction];
        const std::size_t count = request.pieces.facts(static_cast<int>(group)).count + sums.pageable[direction];
        batch_step &step = add(batch_route::staged, static_cast<int>(group), true);
        step.has_pieces = true;
        step.blocks = choice.blocks;
        step.is_helped = choice.is_helped;
        step.is_first = choice.is_stream_idle && count == request.pieces.size() + request.boxes.size();
        step.delay_ns = choice.delay_ns;
        step.copies = copies.pieces.size();
        step.bytes = copies.bytes;
        step.predicted_ns = choice.staged_ns;
    }
}

// ---- Explaining

namespace {

constexpr std::uint64_t unknown = UINT64_MAX;

// A time of 0 is unknown, and so is any sum that includes it.
void add(const batch_step &step, ferry_batch_share &share) noexcept {
    if (step.copies == 0) return;
    share.copies += step.copies;
    share.bytes += step.bytes;
    const bool is_known = step.predicted_ns != 0 && share.predicted_ns != unknown;
    share.predicted_ns = is_known ? share.predicted_ns + step.predicted_ns : unknown;
}

ferry_batch_share &share_of(batch_route route, ferry_batch_explanation &found) noexcept {
    switch (route) {
    case batch_route::kernel:
        return found.kernels;
    case batch_route::batch_call:
        return found.batch_calls;
    case batch_route::staged:
        return found.staged;
    default:
        return found.singles;
    }
}

} // namespace

void explain_steps(const batch_submission &of, const batch_steps &steps, ferry_batch_explanation &found) noexcept {
    found = {};
    for (const batch_step &step : steps) {
        add(step, share_of(step.route, found));
        found.max_sms = std::max<std::uint32_t>(found.max_sms, step.blocks);
        if (step.route != batch_route::staged) continue;
        found.threads = std::max(found.threads, of.instance.staging_threads + (step.is_helped ? 1u : 0u));
        found.staging_delay_ns = std::max(found.staging_delay_ns, step.delay_ns);
    }
    for (ferry_batch_share *const share : {&found.singles, &found.batch_calls, &found.kernels, &found.staged})
        if (share->predicted_ns == unknown) share->predicted_ns = 0;
}

} // namespace ferry
