// Copies by a kernel on the caller's stream.
#include <algorithm>

#include "device/stream_order.h"
#include "exec/kernel_launch.h"
#include "plan/kernel_boxes.h"
#include "routes/route.h"

namespace ferry {

namespace {

// The caller requires kernels, regardless of predictions.
bool is_kernel_wanted(const copy_preferences &preferences) noexcept {
    return preferences.forced == route_kind::kernel || preferences.is_urgent;
}

obstacle why_not_kernel(const copy_question &copy) noexcept {
    const auto &[call, profile, kernels, staging, links] = copy.facts;
    const shape &shape = copy.shape;
    const auto of_reach = [](obstacle why) noexcept { return why == obstacle::managed ? obstacle::none : why; };
    if (call.preferences.no_kernels) return obstacle::forbidden;
    if (is_obstacle(kernels.why_not)) return kernels.why_not;
    if (is_host(shape.source.kind) && is_host(shape.destination.kind)) return obstacle::host_to_host;
    if (shape.has_file()) return obstacle::file;
    if (is_pageable(shape) && !kernels.reaches_pageable) return obstacle::pageable;
    if (shape.destination.array) return obstacle::array;
    if (const obstacle why = of_reach(kernels.source_reach); is_obstacle(why)) return why;
    if (const obstacle why = of_reach(kernels.destination_reach); is_obstacle(why)) return why;
    return is_kernel_wanted(call.preferences) ? obstacle::none : copy.why_not_predicted();
}

prediction predict_kernel(const copy_question &copy) noexcept {
    const plan_facts &facts = copy.facts;
    const auto &[direction, of_direction, rows] = copy.rates();
    const double bytes = rows.bytes();
    // With partial words, no more bytes are in flight on the link than with single bytes.
    const unsigned access = rows.has_parts && direction == copy_direction::host_to_device ? 1 : rows.access;
    const unsigned blocks = blocks_for(*of_direction, direction, bytes, access, facts.call.preferences.max_blocks,
                                       copy.shape.source.array != nullptr);
    double ns = static_cast<double>(rows.count) * kernel_row_ns(*of_direction, direction, rows, blocks);
    const auto limit = [&](std::uint32_t rate) noexcept { ns = std::max(ns, bytes * 1000 / rate); };
    // Kernels were not measured between devices. Over the same link they are no faster than a contiguous copy.
    if (is_obstacle(facts.links.relay) && facts.links.pair.direct_rate) limit(facts.links.pair.direct_rate);
    if (rows.has_array && direction >= copy_direction::within_device)
        limit(array_kernel_rate(*facts.profile, rows.access));
    return {of_direction->kernel_fixed_ns + ns, static_cast<std::uint16_t>(blocks), false, 0};
}

preference prefer_kernel(const copy_question &copy) noexcept {
    if (copy.facts.call.preferences.is_urgent) return {true, FERRY_REASON_URGENT};
    return {!needs_no_choice(copy.shape, {}) && copy.is_faster(kernel_route), FERRY_REASON_PREDICTED};
}

void plan_kernel(const copy_question &copy, copy_plan &plan) noexcept {
    constexpr std::uint16_t few = 8; // if the time was not predicted
    const std::uint16_t max_blocks = copy.facts.call.preferences.max_blocks;
    plan.blocks = copy.facts.profile ? copy.predicted(kernel_route).blocks
                  : max_blocks       ? std::min(max_blocks, few)
                                     : few;
}

error run_kernel(machine &machine, const copy_step &step, const copy_site &site, staged_progress *) noexcept {
    const shape &shape = step.shape;
    const kernel_views &views = step.views;
    const std::uint32_t blocks = step.plan.blocks;
    const auto launch = [&]() noexcept {
        if (shape.source.array)
            return launch_array(machine.cu, machine.kernels, array_box_of(shape, views), blocks, site.stream);
        const kernel_box box = box_of(shape, views.destination.address, views.source.address);
        return launch_strided(machine.cu, machine.kernels, box, blocks, site.stream);
    };
    if (error failed = launch()) return failed;
    return step.plan.synchronise_after ? wait_for_legacy_stream(machine.cu) : ok;
}

void explain_kernel(const machine &, const copy_step &step, ferry_explanation &found) noexcept {
    found.max_sms = std::max<std::uint32_t>(found.max_sms, step.plan.blocks);
}

} // namespace

const route kernel_route = {
    .kind = route_kind::kernel,
    .why_not = why_not_kernel,
    .predict = predict_kernel,
    .run = run_kernel,
    .needs_views = true,
    .prefer = prefer_kernel,
    .plan = plan_kernel,
    .call_name = [](const copy_step &) noexcept { return launch_call; },
    .explain = explain_kernel,
    .obstacle_field = &ferry_explanation::kernel_obstacle,
};

} // namespace ferry
