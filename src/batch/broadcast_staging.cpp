#include "batch/broadcast_staging.h"

#include <algorithm>

#include "routes/staged.h"

namespace ferry {

namespace {

using target = broadcast_targets::target;

// Each device has its own threads. All bytes pass through the staging buffer of the first device.
bool are_ready(ferry_instance &instance, const broadcast_targets &to, const unsigned *of, unsigned count) noexcept {
    for (unsigned i = 0; i < count; ++i) {
        const target &one = to[of[i]];
        context_scope scope(instance.cu);
        if ((one.member->destination - to[of[0]].member->destination) % 16 != 0 || scope.enter(one.context) ||
            instance.kernels.load_into(one.context) || !is_ready_to_stage(instance, one.member->device))
            return false;
    }
    return true;
}

// Whether kernels in the target's current context can write the destination, at the same address.
bool writes(const ferry_instance &instance, const target &one, const broadcast_member &other) noexcept {
    const address_span span = {other.destination, other.destination + other.size - 1};
    address_facts facts;
    if (look_up_address(instance.cu, span.first, address_query::everything_and_access, facts)) return false;
    const kernel_view view = view_of(facts, span, access::write, one.context, one.member->device);
    return view.why_not == obstacle::none && view.address == span.first;
}

// Moves the devices that run a kernel to the front: the first device, and up to three others. Returns false if a kernel
// cannot access a destination.
bool find_helpers(ferry_instance &instance, const broadcast_targets &to, broadcast_lanes &lanes, unsigned *of,
                  unsigned count, bool was_idle, staged_targets &found) noexcept {
    for (unsigned i = 0; i < count; ++i) {
        const target &one = to[of[i]];
        context_scope scope(instance.cu);
        if (scope.enter(one.context)) return false;
        const bool runs = i == 0 || (found.helper_count < max_staged_helpers &&
                                     (!was_idle || instance.staging.has_room_on(one.member->device, one.context)));
        if (!runs) continue;
        for (unsigned other = 0; other < count; ++other)
            if (!writes(instance, one, *to[of[other]].member)) return false;
        if (i == 0) continue;
        found.helpers[found.helper_count++] = {one.context, lanes.feeding(of[i]).stream, one.member->destination,
                                               one.member->device};
        std::swap(of[found.helper_count], of[i]);
    }
    for (; found.count < count; ++found.count)
        found.addresses[found.count] = to[of[found.count]].member->destination;
    return true;
}

} // namespace

// The device that takes a slot writes its bytes to all devices. The caller's stream waits for every kernel, even if a
// context dies: no kernel may write later than the stream permits. So if the stream was idle, devices without a free SM
// run no kernel, and other devices write to them.
error enqueue_staged(ferry_instance &instance, const launch_site &site, const broadcast_targets &to,
                     broadcast_lanes &lanes, unsigned *of, unsigned count, bool was_idle, bool &is_idle,
                     std::uint64_t &bad_index, bool &is_made) noexcept {
    if (count < 2 || count > gpu::max_copies_of_ring) return {};
    // If the context of the caller's stream dies, the stream should report it.
    for (unsigned i = 1; i < count; ++i)
        if (to[of[i]].context == site.context) std::swap(of[0], of[i]);
    lane &own = lanes.feeding(of[0]);
    bad_index = to[of[0]].member->index;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(own.context())) return failed;
    const copy_site at = lanes.site_on(own);
    const auto run = [&](const copy_step &step) noexcept -> error {
        staged_targets found = {};
        if (step.plan.route != route_kind::staged || step.plan.by_copies || !are_ready(instance, to, of, count) ||
            !find_helpers(instance, to, lanes, of, count, was_idle, found))
            return {};
        for (unsigned i = 1; i < count; ++i)
            own.reach(to[of[i]].member->device);
        const error failed =
            run_staged_broadcast(instance, step, at, found, was_idle, to.source().file ? site.files : nullptr);
        is_made = !lacks_memory(failed);
        if (!is_made && failed.status != FERRY_ERROR_LIMIT) is_idle = false; // a part may have been enqueued
        return is_made ? failed : ok;
    };
    const shape_end first = to.part_of(of[0], 0, to.size());
    return lanes.with_planned_line(first, to.part_of_source(0, to.size()), first.device, at, is_idle, run);
}

} // namespace ferry
