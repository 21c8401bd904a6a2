#include "routes/relayed.h"

#include <algorithm>

#include "copy/split.h"
#include "driver/result.h"
#include "exec/driver_copy.h"
#include "routes/devices_at_work.h"
#include "routes/ends.h"

namespace ferry {

namespace {

// The driver has no query for access between contexts, but it reports whether a context can access an address. For an
// array, only the capability of the pair of devices is known. Access that loses bytes does not count, even if it is
// enabled.
error look_at_access(machine &machine, const shape &shape, CUcontext, plan_facts &facts) noexcept {
    facts.links.relay = obstacle::captured;
    if (facts.call.is_captured) return {};
    facts.links.relay = obstacle::no_entry_point;
    if (!machine.lanes.may_serve()) return {};
    const auto reaches = [&](int device, const shape_end &end, bool &does) noexcept -> error {
        const int peer = device_of(end, facts.call.context_device);
        const std::int32_t probed = machine.peers.probe_result(device, peer);
        if (probed == FERRY_PROBE_FAILED) return {};
        if (end.array) {
            does |= machine.peers.reported(device, peer);
            return {};
        }
        context_scope scope(machine.cu);
        if (device != facts.call.context_device) {
            CUcontext there = nullptr;
            if (error failed = machine.contexts.get(device, there)) return failed;
            if (error failed = scope.enter(there)) return failed;
        }
        does |= is_within_reach(machine.cu, end.span.first);
        return {};
    };
    bool is_reached = false;
    if (error failed = reaches(device_of(shape.source, facts.call.context_device), shape.destination, is_reached))
        return failed;
    if (!is_reached)
        if (error failed = reaches(device_of(shape.destination, facts.call.context_device), shape.source, is_reached))
            return failed;
    facts.links.relay = is_reached ? obstacle::direct_access : obstacle::none;
    return {};
}

// If a device has access to the other end, a copy is relayed only if that is forced.
obstacle why_not_relayed(const copy_question &copy) noexcept {
    const obstacle why = copy.facts.links.relay;
    const bool is_forced = copy.facts.call.preferences.forced == route_kind::relayed;
    return is_forced && why == obstacle::direct_access ? obstacle::none : why;
}

// Both halves of a relayed copy run at the same time, so the slower half determines the time. In a slot, rows have no
// gaps.
prediction predict_relayed(const copy_question &copy) noexcept {
    const device_profile &profile = *copy.facts.profile;
    const pair_rates &pair = copy.facts.links.pair;
    const shape &shape = copy.shape;
    const bool is_measured = pair.relay_rate != 0;
    const std::uint32_t rate = is_measured ? pair.relay_rate : profile.relay_rate;
    const auto half_ns = [&](copy_direction direction, bool is_source) noexcept {
        ferry::shape half = shape;
        shape_end &slot = is_source ? half.destination : half.source;
        slot = {memory_kind::pinned, -1, nullptr, 0, 0, 0, {}, shape.width, shape.height};
        const row_profile rows = rows_of(half);
        return static_cast<double>(rows.count) * driver_row_ns(profile[direction], direction, rows);
    };
    const double ns =
        (is_measured ? pair.relay_fixed_ns : profile.relay_fixed_ns) +
        std::max({half_ns(copy_direction::device_to_host, true), half_ns(copy_direction::host_to_device, false),
                  static_cast<double>(shape.bytes()) * 1000 / rate});
    return {copy.facts.links.relay == obstacle::none ? ns : 0, 0, false, 0};
}

// Switching to another chunk costs an engine about 5 us, for any number of streams (H100: contiguous copies of 1 GiB in
// chunks of 1, 2, 4, 8 MiB ran at 45, 49, 52, 53 GB/s). Both engines are active at the same time only between the first
// and the last chunk. With the best size, all switches together take as long as one chunk.
std::uint64_t size_of_chunk(std::uint64_t bytes, std::uint64_t slot_size) noexcept {
    constexpr double change_ns = 5'000, bytes_per_ns = 53;
    const double best_squared = static_cast<double>(bytes) * change_ns * bytes_per_ns;
    std::uint64_t chunk = std::uint64_t{512} << 10;
    while (2 * static_cast<double>(chunk) * static_cast<double>(chunk) < best_squared)
        chunk *= 2;
    return std::min(chunk, slot_size);
}

class relay_run {
public:
    relay_run(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept
        : cu_(cu), lanes_(lanes), shape_(shape), site_(site) {}

    error run() noexcept {
        if (error failed = prepare()) return failed;
        error failed = lanes_.join(lane_of_caller(), site_.stream, from_->stream);
        const std::uint64_t chunk = size_of_chunk(shape_.bytes(), to_->slot_size);
        if (!failed) failed = for_each_chunk(shape_, chunk, [&](const shape &part) noexcept { return move(part); });
        const error ended = end();
        return failed ? failed : ended;
    }

private:
    error prepare() noexcept {
        stream_key user;
        if (error failed = name_stream(cu_, site_.context, site_.stream, user)) return failed;
        if (error failed = take(from_, site_.source, user)) return failed;
        if (error failed = take(to_, site_.destination, user)) return failed;
        if (site_.context != site_.source && site_.context != site_.destination)
            if (error failed = own_.take(site_.context, user, false, site_.may_make)) return failed;
        if (!to_->memory && !site_.may_make) return {.status = FERRY_ERROR_WOULD_BLOCK};
        return lanes_.provide_slots(*to_, site_.destination_device);
    }
    error take(taken_lane &lane, CUcontext context, const stream_key &user) noexcept {
        context_scope scope(cu_);
        if (error failed = scope.enter(context)) return failed;
        return lane.take(context, user, false, site_.may_make);
    }
    lane &lane_of_caller() const noexcept {
        return site_.context == site_.source ? *from_ : site_.context == site_.destination ? *to_ : *own_;
    }

    // Moves a chunk into a slot and out of it. An event that was never recorded counts as complete.
    error move(const shape &part) noexcept {
        const auto slot = static_cast<unsigned>(moved_++ % lane::slots);
        const auto first = reinterpret_cast<std::uintptr_t>(to_->memory.host()) + slot * to_->slot_size;
        shape filling = part, emptying = part;
        filling.destination = emptying.source = packed_end(memory_kind::pinned, -1, first, part);
        if (error failed = copy(filling, *from_, to_->emptied[slot], from_->filled[slot])) return failed;
        return copy(emptying, *to_, from_->filled[slot], to_->emptied[slot]);
    }
    error copy(const shape &half, const lane &on, CUevent before, CUevent behind) noexcept {
        context_scope scope(cu_);
        if (error failed = scope.enter(on.context())) return failed;
        if (const call_result result = cu_.cuStreamWaitEvent(on.stream, before, 0)) return to_error(result);
        if (error failed = run_driver_route(cu_, half, {}, copy_form::asynchronous, {}, on.stream)) return failed;
        return to_error(cu_.cuEventRecord(behind, on.stream));
    }

    // Orders the caller's stream after all work of both lanes.
    error end() noexcept {
        const error failed = lanes_.join_or_wait(*from_, to_->stream);
        const error refused = lanes_.join_or_wait(*to_, site_.stream);
        return failed ? failed : refused;
    }

    const driver_table &cu_;
    lane_set &lanes_;
    const shape &shape_;
    const relay_site &site_;
    taken_lane from_{lanes_}, to_{lanes_}, own_{lanes_};
    std::uint64_t moved_ = 0; // number of chunks
};

error run_relayed(machine &machine, const copy_step &step, const copy_site &site, staged_progress *) noexcept {
    const int context_device = step.call.context_device;
    end_contexts contexts = {site.context, site.context};
    if (error failed = find_contexts(machine, step.shape, context_device, contexts)) return failed;
    const relay_site relay = {site.context,
                              site.stream,
                              contexts.source,
                              contexts.destination,
                              device_of(step.shape.destination, context_device),
                              !step.call.preferences.no_wait};
    const error failed = run_relay(machine.cu, machine.lanes, step.shape, relay);
    if (!step.plan.synchronise_after) return failed;
    // Also for parts before a failure.
    const error passed = wait_for_devices(machine, devices_of_relay(step.shape, context_device));
    return failed ? failed : passed;
}

} // namespace

error run_relay(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept {
    return relay_run(cu, lanes, shape, site).run();
}

std::uint64_t devices_of_relay(const shape &shape, int context_device) noexcept {
    std::uint64_t devices = 0;
    for (const shape_end *const end : {&shape.source, &shape.destination})
        if (is_elsewhere(*end, context_device)) devices |= std::uint64_t{1} << end->device;
    return devices;
}

const route relayed_route = {
    .kind = route_kind::relayed,
    .why_not = why_not_relayed,
    .predict = predict_relayed,
    .run = run_relayed,
    .may_fall_back = true,
    .may_be_captured = false,
    .needs_look_up = may_be_relayed,
    .look_up = look_at_access,
    .call_name = [](const copy_step &) noexcept { return "cuMemcpy3DAsync"; },
    .obstacle_field = &ferry_explanation::relay_obstacle,
};

} // namespace ferry
