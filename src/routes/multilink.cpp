// A large copy between host memory and one device over the host links of several devices (links/multilink.h).
#include <algorithm>

#include "device/stream_order.h"
#include "links/multilink.h"
#include "routes/multilink.h"
#include "routes/route.h"

namespace ferry {

bool may_take_links(const shape &shape, const call_facts &call) noexcept {
    if (!call.preferences.over_links || call.preferences.no_kernels) return false;
    const auto is_of_host = [](const shape_end &end) noexcept {
        return end.kind == memory_kind::pinned || end.kind == memory_kind::pageable;
    };
    const auto is_here = [&](const shape_end &end) noexcept {
        return end.kind == memory_kind::device && !is_elsewhere(end, call.context_device);
    };
    return (is_of_host(shape.source) && is_here(shape.destination)) ||
           (is_here(shape.source) && is_of_host(shape.destination));
}

namespace {

// Shorter copies do not use several links.
constexpr std::uint64_t min_multilink = std::uint64_t{4} << 20;
constexpr std::uint64_t min_staged_multilink = std::uint64_t{32} << 20;

// A helper's link that was not measured is assumed to have the same bandwidth as the device's own link.
double share_of_own_link(const machine &machine, const shape &shape, const link_ways &ways) noexcept {
    const bool is_to_device = is_host(shape.source.kind);
    const copy_direction direction = is_to_device ? copy_direction::host_to_device : copy_direction::device_to_host;
    const int device = ways.all[0].device;
    const double own = (*machine.profiles.of(device))[direction].kernel_line_rate;
    double all = own;
    for (unsigned link = 1; link < ways.count; ++link) {
        const pair_rates pair = machine.peers.rates(ways.all[link].device, device);
        const std::uint32_t rate = is_to_device ? pair.link_to_rate : pair.link_from_rate;
        all += rate ? rate : own;
    }
    return own / all;
}

error find_ways(machine &machine, const shape &shape, int device, CUcontext context, link_ways &found) noexcept {
    if (error failed = machine.links.find_ways(shape, device, context, found)) return failed;
    if (found.count) found.own_share = share_of_own_link(machine, shape, found);
    return {};
}

error look_at_links(machine &machine, const shape &shape, CUcontext context, plan_facts &facts) noexcept {
    link_facts &links = facts.links;
    links.multilink = obstacle::small;
    if (shape.bytes() < (is_pageable(shape) ? min_staged_multilink : min_multilink)) return {};
    links.multilink = obstacle::captured;
    if (facts.call.is_captured) return {};
    if (shape.source.array || shape.destination.array) return {};
    link_ways ways;
    if (error failed = find_ways(machine, shape, facts.call.context_device, context, ways)) return failed;
    links.multilink = ways.why_not;
    links.own_share = ways.own_share;
    links.helper_blocks = static_cast<std::uint16_t>(std::min<std::uint32_t>(ways.max_blocks, blocks_of_a_link(shape)));
    if (ways.count > 1) links.count = static_cast<std::uint16_t>(ways.count);
    return {};
}

// A copy of pageable memory uses several links while it is staged.
obstacle why_not_multilink(const copy_question &copy) noexcept {
    const obstacle why = is_pageable(copy.shape) ? staged_route.why_not(copy) : obstacle::none;
    return is_obstacle(copy.facts.links.multilink) ? copy.facts.links.multilink : why;
}

prediction predict_multilink(const copy_question &copy) noexcept {
    constexpr double start_of_helpers_ns = 20'000;
    const direction_profile &profile = *copy.rates().profile;
    return {profile.kernel_fixed_ns + start_of_helpers_ns +
                static_cast<double>(copy.shape.bytes()) * 1000 / profile.kernel_line_rate * copy.facts.links.own_share,
            0, false, 0};
}

void plan_multilink(const copy_question &copy, copy_plan &plan) noexcept {
    const link_facts &links = copy.facts.links;
    plan.blocks = blocks_of_a_link(copy.shape);
    const std::uint16_t max_blocks = copy.facts.call.preferences.max_blocks;
    if (max_blocks) plan.blocks = std::min(plan.blocks, max_blocks);
    plan.links = links.count;
    plan.helper_blocks = links.helper_blocks;
    plan.own_share = links.own_share;
}

error run_multilink(machine &machine, const copy_step &step, const copy_site &site, staged_progress *) noexcept {
    link_ways ways;
    if (error failed = find_ways(machine, step.shape, step.call.context_device, site.context, ways)) return failed;
    if (ways.count < 2) return {.status = FERRY_ERROR_LIMIT}; // the helpers have changed
    const copy_preferences &preferences = step.call.preferences;
    const error failed = machine.links.run(step.shape, ways, step.plan.blocks, !preferences.is_urgent,
                                           !preferences.no_wait, site.stream);
    if (!step.plan.synchronise_after) return failed;
    const error passed = wait_for_legacy_stream(machine.cu); // also for parts before a failure
    return failed ? failed : passed;
}

void explain_multilink(const machine &, const copy_step &step, ferry_explanation &found) noexcept {
    const copy_plan &plan = step.plan;
    const link_shares shares = share_links(step.shape, plan.links, plan.own_share, plan.blocks, plan.helper_blocks,
                                           !step.call.preferences.is_urgent);
    found.max_sms = std::max<std::uint32_t>(found.max_sms, plan.blocks);
    found.links = std::max<std::uint32_t>(found.links, plan.links);
    found.helper_sms = std::max(found.helper_sms, shares.of_helper);
    found.engine_bytes += shares.by_engine;
}

} // namespace

const route multilink_route = {
    .kind = route_kind::multilink,
    .why_not = why_not_multilink,
    .predict = predict_multilink,
    .run = run_multilink,
    .may_fall_back = true,
    .is_final = true,
    .may_be_captured = false,
    .needs_look_up = may_take_links,
    .look_up = look_at_links,
    .prefer =
        [](const copy_question &copy) noexcept {
            return preference{!is_pageable(copy.shape), FERRY_REASON_MULTILINK};
        },
    .plan = plan_multilink,
    .call_name = [](const copy_step &) noexcept { return launch_call; },
    .explain = explain_multilink,
    .obstacle_field = &ferry_explanation::multilink_obstacle,
};

} // namespace ferry
