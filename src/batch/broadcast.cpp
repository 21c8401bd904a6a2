#include "batch/broadcast.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/rounding.h"
#include "device/context_status.h"
#include "device/stream_order.h"
#include "driver/result.h"
#include "submit/copy_steps.h"
#include "submit/staging_setup.h"

namespace ferry {

namespace {

shape_end end_of(memory_kind kind, int device, std::uint64_t address, std::uint64_t size) noexcept {
    return {kind, device, nullptr, 0, 0, 0, {address, address + size - 1}, size, 1};
}

// Plans a line in the current context `site.context` of `device`, by whichever route is best there, and calls `use`.
// `is_idle`: the caller's stream is, so the lane will be in a moment.
template <class Use>
error with_planned_line(ferry_instance &instance, const shape_end &to, const shape_end &from, int device,
                        const copy_site &site, bool is_idle, const Use &use) noexcept {
    const shape line = {from, to, to.row_pitch, 1, 1};
    plan_facts facts = {.context_device = device, .form = copy_form::asynchronous};
    facts.preferences = preferences_of(instance.copy_flags);
    if (error failed = look_at_stream(instance, line, site.stream, facts)) return failed;
    facts.is_stream_idle |= is_idle;
    resolved_ends ends;
    kernel_views views;
    copy_plan plan = plan_for_driver(line, facts);
    if (is_pageable(line) || leaves_device(line, device))
        if (error failed = choose(instance, line, ends, site.context, facts, views, plan)) return failed;
    return use(planned_copy{line, facts, plan, views});
}

error copy_line(ferry_instance &instance, const shape_end &to, const shape_end &from, int device, const copy_site &site,
                bool is_idle) noexcept {
    return with_planned_line(instance, to, from, device, site, is_idle,
                             [&](const planned_copy &copy) noexcept { return run_planned(instance, copy, site); });
}

// A device that gets the bytes.
struct target {
    const broadcast_member *member;
    CUcontext context;
    unsigned island;
};

// The caller's stream has the context of its device.
error context_of(ferry_instance &instance, const launch_site &site, int device, CUcontext &context) noexcept {
    int of_stream = -1;
    if (error failed = instance.contexts.device_of_current(site.context, of_stream)) return failed;
    if (device == of_stream) return context = site.context, ok;
    return instance.contexts.get(device, context);
}

class broadcast {
public:
    broadcast(ferry_instance &instance, const broadcast_member *members, std::size_t count, const launch_site &site,
              bool was_idle) noexcept
        : instance_(instance), cu_(instance.cu), site_(site), size_(members->size), members_(members), count_(count),
          was_idle_(was_idle) {}

    error run(std::uint64_t &bad_index) noexcept {
        error of_target;
        std::uint64_t index = members_->index;
        error failed = look_at_source();
        if (!failed) {
            find_targets(of_target, bad_index);
            find_islands();
            is_idle_ = was_idle_ && source_.kind == memory_kind::pageable && is_idle(cu_, site_.stream, true);
            failed = take_lanes();
            if (!failed) {
                failed = enqueue(index);
                const error joined = join();
                if (!failed) failed = joined;
            } else if (lacks_memory(failed)) {
                failed = copy_one_by_one(index);
            }
        }
        if (means_dead_context(failed.status)) index = index_of_dead(index);
        if (failed) bad_index = index;
        return failed ? failed : of_target;
    }

private:
    static constexpr unsigned max_targets = device_contexts::max_devices;

    error look_at_source() noexcept {
        address_facts facts;
        if (error failed = look_up_address(cu_, members_->source, address_query::kind_and_reach, facts)) return failed;
        source_ = end_of(kind_to_context(facts), facts.device, members_->source, size_);
        if (source_.device < 0) return {};
        return context_of(instance_, site_, source_.device, source_context_);
    }

    // Leaves out devices whose context is dead.
    void find_targets(error &refused, std::uint64_t &bad_index) noexcept {
        for (std::size_t i = 0; i < count_ && targets_ < max_targets; ++i) {
            target &one = all_[targets_];
            one.member = &members_[i];
            error failed = context_of(instance_, site_, one.member->device, one.context);
            const std::int32_t status = failed ? failed.status : context_status(cu_, one.context);
            if (!failed && means_dead_context(status)) failed = {.status = status};
            if (failed) {
                if (!refused) bad_index = one.member->index;
                if (!refused) refused = failed;
            } else {
                ++targets_;
            }
        }
    }

    // Calls to pass a dead device's chunks on fail too. What is wrong is that device's part.
    std::uint64_t index_of_dead(std::uint64_t otherwise) const noexcept {
        for (unsigned i = 0; i < targets_; ++i)
            if (means_dead_context(context_status(cu_, all_[i].context))) return all_[i].member->index;
        return otherwise;
    }

    // Devices that reach each other's destinations form an island. From a device, the source's must reach them too.
    void find_islands() noexcept {
        for (unsigned i = 0; i < targets_; ++i) {
            target &one = all_[i];
            one.island = islands_;
            for (unsigned island = 0; island < islands_ && one.island == islands_; ++island) {
                bool is_reached = true;
                for (unsigned other = 0; other < i && is_reached; ++other)
                    if (all_[other].island == island) is_reached = reach(one, all_[other]);
                if (is_reached) one.island = island;
            }
            islands_ += one.island == islands_;
        }
    }
    bool reach(const target &one, const target &other) const noexcept {
        return reaches(one, other) && reaches(other, one) && reaches_source(one) && reaches_source(other);
    }
    bool reaches(const target &one, const target &other) const noexcept {
        return is_reached_from(one.context, one.member->device, other.member->destination, other.member->device);
    }
    bool reaches_source(const target &one) const noexcept {
        return source_.device < 0 ||
               is_reached_from(one.context, one.member->device, source_.span.first, source_.device) ||
               is_reached_from(source_context_, source_.device, one.member->destination, one.member->device);
    }
    // Access counts only once test data has come through. This is no time for the test, which may wait for the devices.
    bool is_reached_from(CUcontext context, int device, std::uint64_t address, int peer) const noexcept {
        if (instance_.peers.probe_result(device, peer) != FERRY_PROBE_PASSED) return false;
        context_scope scope(cu_);
        return !scope.enter(context) && is_within_reach(cu_, address);
    }

    error take(std::optional<taken_lane> &lane, CUcontext context) noexcept {
        context_scope scope(cu_);
        if (error failed = scope.enter(context)) return failed;
        return lane.emplace(instance_.lanes).take(context, user_);
    }
    // From a device, the first feeding lane is the source's; from the host, each target has its own.
    error take_lanes() noexcept {
        if (error failed = name_stream(cu_, site_.context, site_.stream, user_)) return failed;
        if (source_.device >= 0)
            if (error failed = take(feeding_[0], source_context_)) return failed;
        for (unsigned i = 0; i < targets_; ++i) {
            if (source_.device < 0)
                if (error failed = take(feeding_[i], all_[i].context)) return failed;
            if (passes_on(i))
                if (error failed = take(forwarding_[i], all_[i].context)) return failed;
        }
        return lane_of_caller() ? ok : take(own_, site_.context);
    }
    lane *lane_of_caller() noexcept {
        for (std::optional<taken_lane> &one : feeding_)
            if (one && (*one)->context() == site_.context) return &**one;
        return own_ ? &**own_ : nullptr;
    }
    // All devices of an exchange do, and in a chain all but the last one.
    bool passes_on(unsigned target) const noexcept {
        for (unsigned i = source_.device < 0 ? 0 : target + 1; i < targets_; ++i)
            if (i != target && all_[i].island == all_[target].island) return true;
        return false;
    }

    error enqueue(std::uint64_t &bad_index) noexcept {
        lane &of_caller = *lane_of_caller();
        for (std::optional<taken_lane> &one : feeding_)
            if (one)
                if (error failed = instance_.lanes.join(of_caller, site_.stream, (*one)->stream)) return failed;
        error failed;
        for (unsigned island = 0; island < islands_ && !failed; ++island) {
            unsigned of[max_targets], count = 0;
            for (unsigned i = 0; i < targets_; ++i)
                if (all_[i].island == island) of[count++] = i;
            bool is_made = false;
            if (source_.kind == memory_kind::pageable) failed = enqueue_staged(of, count, bad_index, is_made);
            if (failed || is_made) continue;
            failed = source_.device < 0 ? enqueue_exchange(of, count, bad_index) : enqueue_chain(of, count, bad_index);
        }
        return failed;
    }

    // From pageable memory, if it is staged: worker threads fill each slot once, and the device that takes it writes the
    // bytes to all others. The caller's stream waits for every kernel, also where a context dies meanwhile: none may
    // write later than the stream allows. So devices that others fill run none, if the stream was idle. They are only
    // written to.
    error enqueue_staged(unsigned *of, unsigned count, std::uint64_t &bad_index, bool &is_made) noexcept {
        if (count < 2 || count > gpu::max_copies_of_ring) return {};
        // If the context of the caller's stream dies, the stream should tell.
        for (unsigned i = 1; i < count; ++i)
            if (all_[of[i]].context == site_.context) std::swap(of[0], of[i]);
        const shape_end first = part_of(of[0], 0, size_);
        lane &own = **feeding_[of[0]];
        bad_index = all_[of[0]].member->index;
        context_scope scope(cu_);
        if (error failed = scope.enter(own.context())) return failed;
        const copy_site site = {own.context(), own.stream};
        const auto run = [&](const planned_copy &copy) noexcept -> error {
            staged_targets to = {};
            if (copy.plan.route != route_kind::staged || copy.plan.by_copies || !are_ready(of, count) ||
                !find_helpers(of, count, to))
                return {};
            for (unsigned i = 1; i < count; ++i)
                own.reach(all_[of[i]].member->device);
            const error failed = run_staged_broadcast(instance_, copy, site, to, was_idle_);
            is_made = !lacks_memory(failed);
            if (!is_made && failed.status != FERRY_ERROR_LIMIT) is_idle_ = false; // a part may have been enqueued
            return is_made ? failed : ok;
        };
        return with_planned_line(instance_, first, part_of_source(0, size_), first.device, site, is_idle_, run);
    }
    // Each device has its own threads. All bytes pass through the first one's staging buffer.
    bool are_ready(const unsigned *of, unsigned count) noexcept {
        for (unsigned i = 0; i < count; ++i) {
            const target &one = all_[of[i]];
            context_scope scope(cu_);
            if ((one.member->destination - all_[of[0]].member->destination) % 16 != 0 || scope.enter(one.context) ||
                instance_.kernels.load_into(one.context) || !is_ready_to_stage(instance_, one.member->device))
                return false;
        }
        return true;
    }
    // Puts those that run a kernel first: the first one, and up to three of the others. Returns false where a kernel
    // does not reach a destination.
    bool find_helpers(unsigned *of, unsigned count, staged_targets &to) noexcept {
        for (unsigned i = 0; i < count; ++i) {
            const target &one = all_[of[i]];
            context_scope scope(cu_);
            if (scope.enter(one.context)) return false;
            const bool runs =
                i == 0 || (to.helper_count < max_staged_helpers &&
                           (!was_idle_ || instance_.staging.has_room_on(one.member->device, one.context)));
            if (!runs) continue;
            for (unsigned other = 0; other < count; ++other)
                if (!writes(one, *all_[of[other]].member)) return false;
            if (i == 0) continue;
            to.helpers[to.helper_count++] = {one.context, (*feeding_[of[i]])->stream, one.member->destination,
                                             one.member->device};
            std::swap(of[to.helper_count], of[i]);
        }
        for (; to.count < count; ++to.count)
            to.addresses[to.count] = all_[of[to.count]].member->destination;
        return true;
    }
    // Whether kernels in the target's current context write the destination, at the same address.
    bool writes(const target &one, const broadcast_member &other) const noexcept {
        const address_span span = {other.destination, other.destination + size_ - 1};
        address_facts facts;
        if (look_up_address(cu_, span.first, address_query::everything_and_access, facts)) return false;
        const kernel_view view = view_of(facts, span, access::write, one.context, one.member->device);
        return view.why_not == obstacle::none && view.address == span.first;
    }

    // From the host: the devices of an island take chunks in rounds, one each, and pass them on to all others. All of
    // them begin a round before any of them passes a chunk on.
    error enqueue_exchange(const unsigned *of, unsigned count, std::uint64_t &bad_index) noexcept {
        const std::uint64_t chunk = size_of_exchanged(count);
        for (std::uint64_t begin = 0; begin < size_; begin += count * chunk) {
            const auto each_chunk = [&](auto enqueue_one) noexcept -> error {
                for (unsigned i = 0; i < count && begin + i * chunk < size_; ++i) {
                    const std::uint64_t at = begin + i * chunk;
                    if (error failed = enqueue_one(i, at, std::min(chunk, size_ - at))) return failed;
                }
                return {};
            };
            const auto feed = [&](unsigned i, std::uint64_t at, std::uint64_t size) noexcept -> error {
                const shape_end to = part_of(of[i], at, size);
                bad_index = all_[of[i]].member->index;
                const bool is_first = is_idle_ && at < count * chunk; // later ones wait for these
                if (error failed = copy(feeding_[of[i]], to.device, to, part_of_source(at, size), is_first))
                    return failed;
                return count == 1 ? ok : order(feeding_[of[i]], forwarding_[of[i]]);
            };
            const auto pass_on = [&](unsigned i, std::uint64_t at, std::uint64_t size) noexcept -> error {
                const shape_end from = part_of(of[i], at, size);
                for (unsigned step = 1; step < count; ++step) {
                    const unsigned next = of[(i + step) % count];
                    bad_index = all_[next].member->index;
                    if (error failed = copy(forwarding_[of[i]], from.device, part_of(next, at, size), from))
                        return failed;
                }
                return {};
            };
            if (error failed = each_chunk(feed)) return failed;
            if (error failed = each_chunk(pass_on)) return failed;
        }
        return {};
    }

    // Of pageable memory, which is not staged for all together, each device gets its whole share before it passes it on.
    std::uint64_t size_of_exchanged(unsigned devices) const noexcept {
        constexpr std::uint64_t megabyte = std::uint64_t{1} << 20;
        if (devices == 1) return size_;
        const bool is_pageable = source_.kind == memory_kind::pageable;
        const std::uint64_t share = round_up(divide_up(size_, is_pageable ? devices : devices * 8), 4096);
        return std::clamp(share, megabyte, is_pageable ? 512 * megabyte : 32 * megabyte);
    }

    // From a device: each device of an island passes the chunks on to the next one, so that no link carries a byte
    // twice, and no device gets two chunks at a time. When devices take chunks in turn and pass them on to all others,
    // they get several at once, and 1 GiB arrives on three H100 at 235 GB/s in place of 346.
    error enqueue_chain(const unsigned *of, unsigned count, std::uint64_t &bad_index) noexcept {
        const std::uint64_t chunk = size_of_passed(count);
        for (std::uint64_t at = 0; at < size_; at += chunk) {
            const std::uint64_t size = std::min(chunk, size_ - at);
            shape_end from = part_of_source(at, size);
            const std::optional<taken_lane> *by = &feeding_[0];
            for (unsigned i = 0; i < count; ++i) {
                const shape_end to = part_of(of[i], at, size);
                bad_index = all_[of[i]].member->index;
                if (error failed = copy(*by, from.device, to, from)) return failed;
                if (i + 1 == count) break;
                if (error failed = order(*by, forwarding_[of[i]])) return failed;
                from = to;
                by = &forwarding_[of[i]];
            }
        }
        return {};
    }

    // Each chunk costs some 5 us, and each device gets its first bytes a chunk later than the one before. On three H100
    // the best are 8 MiB for 64 MiB, 16 for 256, 32 for 1 GiB.
    std::uint64_t size_of_passed(unsigned devices) const noexcept {
        constexpr std::uint64_t megabyte = std::uint64_t{1} << 20, largest = 256 * megabyte;
        std::uint64_t chunk = megabyte;
        while (chunk < largest && chunk * chunk / megabyte * (devices - 1) < 2 * size_)
            chunk *= 2;
        return devices == 1 ? size_ : chunk;
    }

    shape_end part_of_source(std::uint64_t at, std::uint64_t size) const noexcept {
        return end_of(source_.kind, source_.device, source_.span.first + at, size);
    }
    shape_end part_of(unsigned target, std::uint64_t at, std::uint64_t size) const noexcept {
        const broadcast_member &one = *all_[target].member;
        return end_of(memory_kind::device, one.device, one.destination + at, size);
    }

    error copy(const std::optional<taken_lane> &by, int device_of_lane, const shape_end &to, const shape_end &from,
               bool is_idle = false) noexcept {
        const taken_lane &lane = *by;
        context_scope scope(cu_);
        if (error failed = scope.enter(lane->context())) return failed;
        if (to.device != device_of_lane) lane->reach(to.device);
        return copy_line(instance_, to, from, device_of_lane, {lane->context(), lane->stream}, is_idle);
    }
    error order(const std::optional<taken_lane> &earlier, const std::optional<taken_lane> &later) noexcept {
        const taken_lane &before = *earlier, &after = *later;
        context_scope scope(cu_);
        if (error failed = scope.enter(before->context())) return failed;
        if (const CUresult result = cu_.cuEventRecord(before->filled[0], before->stream)) return to_error(result);
        return to_error(cu_.cuStreamWaitEvent(after->stream, before->filled[0], 0));
    }

    // Orders the stream behind all lanes, whatever they hold.
    error join() noexcept {
        error failed;
        const auto join_all = [&](auto &lanes) noexcept {
            for (std::optional<taken_lane> &taken : lanes) {
                if (!taken) continue;
                lane &one = **taken;
                const error refused = instance_.lanes.join_or_wait(one, site_.stream);
                if (!failed) failed = refused;
            }
        };
        join_all(feeding_);
        join_all(forwarding_);
        return failed;
    }

    // While all lanes are at work, or without any.
    error copy_one_by_one(std::uint64_t &bad_index) noexcept {
        int device = -1;
        if (error failed = instance_.contexts.device_of_current(site_.context, device)) return failed;
        for (unsigned i = 0; i < targets_; ++i)
            if (error failed = copy_line(instance_, part_of(i, 0, size_), part_of_source(0, size_), device,
                                         {site_.context, site_.stream}, false)) {
                bad_index = all_[i].member->index;
                return failed;
            }
        return {};
    }

    ferry_instance &instance_;
    const driver_table &cu_;
    const launch_site &site_;
    const std::uint64_t size_;
    const broadcast_member *const members_;
    const std::size_t count_;
    const bool was_idle_; // the caller's stream, before the batch
    shape_end source_ = {};
    CUcontext source_context_ = nullptr; // of a source on a device
    stream_key user_ = {};
    target all_[max_targets];
    unsigned targets_ = 0, islands_ = 0;
    std::optional<taken_lane> own_, feeding_[max_targets], forwarding_[max_targets];
    bool is_idle_ = false; // the caller's stream, where the memory is pageable
};

} // namespace

error run_broadcast(ferry_instance &instance, broadcast_sets &sets, std::size_t set, const launch_site &site,
                    bool was_idle, std::uint64_t &bad_index) noexcept {
    static_assert(alignof(broadcast) <= alignof(std::max_align_t));
    void *const place = sets.place_for(sizeof(broadcast));
    if (!place) return no_memory;
    auto *const made = new (place) broadcast(instance, sets.begin(set), sets.count(set), site, was_idle);
    const error failed = made->run(bad_index);
    made->~broadcast();
    return failed;
}

std::size_t count_dead(ferry_instance &instance, const broadcast_member *members, std::size_t count,
                       const launch_site &site) noexcept {
    return static_cast<std::size_t>(std::count_if(members, members + count, [&](const broadcast_member &one) noexcept {
        CUcontext context = nullptr;
        const error failed = context_of(instance, site, one.device, context);
        return means_dead_context(failed ? failed.status : context_status(instance.cu, context));
    }));
}

} // namespace ferry
