#include "submit/several_devices.h"

#include <algorithm>
#include <bit>

#include "device/context_status.h"
#include "links/relay.h"

namespace ferry {

// The driver has no query for access between contexts, but it reports whether a context reaches an address. Of an array
// nothing is known but what the pair of devices can do. Access that loses bytes is none, even where it is enabled.
error look_at_access(ferry_instance &instance, const shape &shape, plan_facts &facts) noexcept {
    facts.relay = obstacle::not_between_devices;
    if (!may_be_relayed(shape, facts)) return {};
    facts.relay = obstacle::captured;
    if (facts.is_captured) return {};
    facts.relay = obstacle::no_entry_point;
    if (!instance.lanes.may_serve()) return {};
    const auto reaches = [&](int device, const shape_end &end, bool &does) noexcept -> error {
        const int peer = device_of(end, facts.context_device);
        const std::int32_t probed = instance.peers.probe_result(device, peer);
        if (probed == FERRY_PROBE_FAILED) return {};
        if (end.array) {
            does |= instance.peers.reported(device, peer);
            return {};
        }
        context_scope scope(instance.cu);
        if (device != facts.context_device) {
            CUcontext there = nullptr;
            if (error failed = instance.contexts.get(device, there)) return failed;
            if (error failed = scope.enter(there)) return failed;
        }
        does |= is_within_reach(instance.cu, end.span.first);
        return {};
    };
    bool is_reached = false;
    if (error failed = reaches(device_of(shape.source, facts.context_device), shape.destination, is_reached))
        return failed;
    if (!is_reached)
        if (error failed = reaches(device_of(shape.destination, facts.context_device), shape.source, is_reached))
            return failed;
    facts.relay = is_reached ? obstacle::direct_access : obstacle::none;
    return {};
}

pair_rates rates_between(const ferry_instance &instance, const shape &shape, int context_device) noexcept {
    if (is_host(shape.source.kind) || is_host(shape.destination.kind)) return {};
    const int from = device_of(shape.source, context_device), to = device_of(shape.destination, context_device);
    return from == to ? pair_rates{} : instance.peers.rates(from, to);
}

namespace {

// A helper's link that was not measured is expected to carry as much as the device's own.
double share_of_own_link(const ferry_instance &instance, const shape &shape, const link_ways &ways) noexcept {
    const bool is_to_device = is_host(shape.source.kind);
    const copy_direction direction = is_to_device ? copy_direction::host_to_device : copy_direction::device_to_host;
    const int device = ways.all[0].device;
    const double own = (*instance.profiles.of(device))[direction].kernel_line_rate;
    double all = own;
    for (unsigned link = 1; link < ways.count; ++link) {
        const pair_rates pair = instance.peers.rates(ways.all[link].device, device);
        const std::uint32_t rate = is_to_device ? pair.link_to_rate : pair.link_from_rate;
        all += rate ? rate : own;
    }
    return own / all;
}

error find_ways(ferry_instance &instance, const shape &shape, int device, CUcontext context,
                link_ways &found) noexcept {
    if (error failed = instance.links.find_ways(shape, device, context, found)) return failed;
    if (found.count) found.own_share = share_of_own_link(instance, shape, found);
    return {};
}

} // namespace

error look_at_links(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept {
    facts.links = 1;
    facts.multilink = obstacle::forbidden;
    if (!may_take_links(shape, facts) || facts.preferences.no_kernels) return {};
    facts.multilink = obstacle::small;
    if (shape.bytes() < (is_pageable(shape) ? smallest_staged_multilink : smallest_multilink)) return {};
    facts.multilink = obstacle::captured;
    if (facts.is_captured) return {};
    if (shape.source.array || shape.destination.array) return {};
    link_ways ways;
    if (error failed = find_ways(instance, shape, facts.context_device, context, ways)) return failed;
    facts.multilink = ways.why_not;
    facts.own_share = ways.own_share;
    facts.helper_blocks = static_cast<std::uint16_t>(std::min<std::uint32_t>(ways.max_blocks, blocks_of_a_link(shape)));
    if (ways.count > 1) facts.links = static_cast<std::uint16_t>(ways.count);
    return {};
}

std::uint64_t devices_at_work(ferry_instance &instance, CUcontext context, CUstream stream) noexcept {
    stream_key user = {};
    int device = 0;
    if (instance.lanes.empty() || name_stream(instance.cu, context, stream, user) ||
        instance.contexts.device_of_current(context, device))
        return 0;
    return instance.lanes.devices_at_work(user, device);
}

std::int32_t status_of_devices(ferry_instance &instance, std::uint64_t devices) noexcept {
    for (; devices != 0; devices &= devices - 1) {
        CUcontext context = nullptr;
        if (!instance.contexts.is_in_use(std::countr_zero(devices), context)) continue;
        const std::int32_t status = context_status(instance.cu, context);
        if (means_dead_context(status)) return status;
    }
    return FERRY_SUCCESS;
}

std::int32_t status_of_contexts(ferry_instance &instance, const context_name *contexts, std::uint32_t count) noexcept {
    for (const context_name *one = contexts; one != contexts + count; ++one) {
        const std::int32_t status =
            may_live(instance.cu, *one) ? context_status(instance.cu, one->handle) : FERRY_SUCCESS;
        if (means_dead_context(status)) return status;
    }
    return FERRY_SUCCESS;
}

std::uint64_t devices_of_relay(const shape &shape, int context_device) noexcept {
    std::uint64_t devices = 0;
    for (const shape_end *const end : {&shape.source, &shape.destination})
        if (is_elsewhere(*end, context_device)) devices |= std::uint64_t{1} << end->device;
    return devices;
}

error wait_for_devices(ferry_instance &instance, CUcontext context, CUstream stream) noexcept {
    return wait_for_devices(instance, devices_at_work(instance, context, stream));
}

error wait_for_devices(ferry_instance &instance, std::uint64_t devices) noexcept {
    if (error failed = wait_for_legacy_stream(instance.cu)) return failed;
    return {.status = status_of_devices(instance, devices)};
}

error run_relayed(ferry_instance &instance, const planned_copy &copy, const copy_site &site) noexcept {
    const plan_facts &facts = copy.facts;
    end_contexts contexts = {site.context, site.context};
    if (error failed = find_contexts(instance, copy.shape, facts.context_device, contexts)) return failed;
    const relay_site relay = {site.context, site.stream, contexts.source, contexts.destination,
                              device_of(copy.shape.destination, facts.context_device)};
    const error failed = run_relay(instance.cu, instance.lanes, copy.shape, relay);
    if (!copy.plan.synchronise_after) return failed;
    // Also for parts before a failure.
    const error passed = wait_for_devices(instance, devices_of_relay(copy.shape, facts.context_device));
    return failed ? failed : passed;
}

error run_over_links(ferry_instance &instance, const planned_copy &copy, const copy_site &site) noexcept {
    link_ways ways;
    if (error failed = find_ways(instance, copy.shape, copy.facts.context_device, site.context, ways)) return failed;
    if (ways.count < 2) return {.status = FERRY_ERROR_LIMIT}; // the helpers have changed
    const error failed =
        instance.links.run(copy.shape, ways, copy.plan.blocks, !copy.facts.preferences.is_urgent, site.stream);
    if (!copy.plan.synchronise_after) return failed;
    const error passed = wait_for_legacy_stream(instance.cu); // also for parts before a failure
    return failed ? failed : passed;
}

void helpers_of_copy::take(const planned_copy &copy, const copy_site &site) noexcept {
    link_ways ways;
    stream_key user;
    const shape &shape = copy.shape;
    if (instance_.links.find_ways(shape, copy.facts.context_device, site.context, ways) || ways.count < 2) return;
    if (name_stream(instance_.cu, site.context, site.stream, user) || own_.take(site.context, user)) return;
    for (unsigned link = 1; link < ways.count && count_ < max_staged_helpers; ++link) {
        const link_way &way = ways.all[link];
        context_scope scope(instance_.cu);
        if (scope.enter(way.context) || lanes_[count_].take(way.context, user, true)) continue;
        const CUstream behind = lanes_[count_]->stream;
        if (instance_.lanes.join(*own_, site.stream, behind)) return;
        helpers_[count_] = {way.context, behind, is_host(shape.source.kind) ? way.destination : way.source, way.device};
        ++count_;
    }
}

void helpers_of_copy::note_use() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i)
        static_cast<void>(instance_.lanes.join(*lanes_[i], lanes_[i]->stream, lanes_[i]->stream));
}

} // namespace ferry
