#include "batch/broadcast.h"

#include <algorithm>
#include <new>

#include "base/rounding.h"
#include "batch/broadcast_lanes.h"
#include "batch/broadcast_staging.h"
#include "batch/broadcast_targets.h"
#include "device/context_status.h"
#include "device/stream_order.h"
#include "driver/result.h"

namespace ferry {

namespace {

class broadcast {
public:
    broadcast(ferry_instance &instance, const broadcast_sets &sets, std::size_t set, const launch_site &site,
              bool was_idle, lane *before) noexcept
        : instance_(instance), site_(site), was_idle_(was_idle), is_stream_unchanged_(!before),
          to_(instance, sets.begin(set), sets.count(set), site),
          lanes_(instance, sets.preferences(), site, before, sets.begin(set)->index),
          first_index_(sets.begin(set)->index) {}

    error run(std::uint64_t &bad_index) noexcept;

private:
    static constexpr std::uint64_t megabyte = std::uint64_t{1} << 20;

    // The targets of one island.
    struct island {
        unsigned of[broadcast_targets::max_targets], count;
    };

    error enqueue(std::uint64_t &bad_index) noexcept;
    error enqueue_exchange(const island &on, std::uint64_t &bad_index) noexcept;
    error enqueue_chain(const island &on, std::uint64_t &bad_index) noexcept;
    error copy_one_by_one(std::uint64_t &bad_index) noexcept;
    std::uint64_t size_of_exchanged(unsigned devices) const noexcept;
    std::uint64_t size_of_passed(unsigned devices) const noexcept;
    std::uint64_t index_of(unsigned target) const noexcept { return to_[target].member->index; }

    ferry_instance &instance_;
    const launch_site &site_;
    const bool was_idle_;            // the caller's stream, before the batch
    const bool is_stream_unchanged_; // since then: the lanes follow the stream as it is now
    bool is_idle_ = false;           // the caller's stream, now
    broadcast_targets to_;
    broadcast_lanes lanes_;
    const std::uint64_t first_index_;
};

error broadcast::run(std::uint64_t &bad_index) noexcept {
    error of_target;
    std::uint64_t index = first_index_;
    error failed = to_.look_at_source();
    if (!failed) {
        to_.find(of_target, bad_index);
        is_idle_ = was_idle_ && is_stream_unchanged_ && !follows_legacy_stream(instance_.cu, site_.stream);
        failed = lanes_.take(to_, is_idle_);
        if (!failed) {
            failed = enqueue(index);
            const error joined = lanes_.join();
            if (!failed) failed = joined;
        } else if (lacks_memory(failed) && !to_.source().file) {
            failed = copy_one_by_one(index);
        }
    }
    if (means_dead_context(failed.status)) index = to_.index_of_dead(index);
    if (failed) bad_index = index;
    return failed ? failed : of_target;
}

error broadcast::enqueue(std::uint64_t &bad_index) noexcept {
    if (error failed = lanes_.begin()) return failed;
    error failed;
    for (unsigned number = to_.islands(); number-- > 0 && !failed;) { // the caller's device is mostly the first
        island on;
        on.count = 0;
        for (unsigned i = 0; i < to_.count(); ++i)
            if (to_[i].island == number) on.of[on.count++] = i;
        bool is_made = false;
        if (to_.is_staged())
            failed =
                enqueue_staged(instance_, site_, to_, lanes_, on.of, on.count, was_idle_, is_idle_, bad_index, is_made);
        if (failed || is_made) continue;
        failed = to_.is_from_device() ? enqueue_chain(on, bad_index) : enqueue_exchange(on, bad_index);
    }
    return failed;
}

// From the host: the devices of an island get chunks in rounds, one chunk each, and forward them to all other devices.
// All devices start a round before any of them forwards a chunk.
error broadcast::enqueue_exchange(const island &on, std::uint64_t &bad_index) noexcept {
    const std::uint64_t chunk = size_of_exchanged(on.count), round = on.count * chunk;
    for (std::uint64_t begin = 0; begin < to_.size(); begin += round) {
        const auto each_chunk = [&](auto enqueue_one) noexcept -> error {
            for (unsigned i = 0; i < on.count && begin + i * chunk < to_.size(); ++i) {
                const std::uint64_t at = begin + i * chunk;
                if (error failed = enqueue_one(i, at, std::min(chunk, to_.size() - at))) return failed;
            }
            return {};
        };
        const auto feed = [&](unsigned i, std::uint64_t at, std::uint64_t size) noexcept -> error {
            const unsigned target = on.of[i];
            const shape_end part = to_.part_of(target, at, size);
            bad_index = index_of(target);
            const bool is_first = is_idle_ && at < round; // later chunks wait for the first chunks
            const shape_end from = to_.part_of_source(at, size);
            if (on.count == 1) return lanes_.feed_alone(target, part, from, is_first);
            lane &by = lanes_.feeding(target);
            if (error failed = lanes_.copy(by, part.device, part, from, is_first)) return failed;
            return lanes_.order(by, lanes_.forwarding(target));
        };
        const auto forward = [&](unsigned i, std::uint64_t at, std::uint64_t size) noexcept -> error {
            const shape_end from = to_.part_of(on.of[i], at, size);
            for (unsigned step = 1; step < on.count; ++step) {
                const unsigned next = on.of[(i + step) % on.count];
                bad_index = index_of(next);
                if (error failed =
                        lanes_.copy(lanes_.forwarding(on.of[i]), from.device, to_.part_of(next, at, size), from))
                    return failed;
            }
            return {};
        };
        if (error failed = each_chunk(feed)) return failed;
        if (error failed = each_chunk(forward)) return failed;
    }
    return {};
}

// A round costs calls for each pair of devices, and saves time only while the devices would wait longer for the last
// chunks: two H200 get 4 MiB in 82 us in chunks of 1 MiB, and in 93 us in chunks of 2 MiB. If pageable memory or a file is
// not staged for all devices together, each device gets its whole share before it forwards the share.
std::uint64_t broadcast::size_of_exchanged(unsigned devices) const noexcept {
    if (devices == 1) return to_.size();
    const auto share_of = [&](unsigned rounds) noexcept {
        return round_up(divide_up(to_.size(), devices * rounds), 4096);
    };
    if (to_.is_staged()) return std::clamp(share_of(1), megabyte, 512 * megabyte);
    constexpr std::uint64_t most = 32 * megabyte;
    const std::uint64_t least = std::min(std::uint64_t{devices} * devices * megabyte / 4, most);
    return std::min(share_of(1), std::clamp(share_of(8), least, most));
}

// From a device: each device of an island forwards the chunks to the next device, so that no link transfers a byte
// twice, and no device receives two chunks at a time. If devices took chunks in rotation and forwarded them to all
// other devices, a device would receive several chunks at the same time: on three H100, 1 GiB then arrives at 235 GB/s
// instead of 346.
error broadcast::enqueue_chain(const island &on, std::uint64_t &bad_index) noexcept {
    const std::uint64_t chunk = size_of_passed(on.count);
    for (std::uint64_t at = 0; at < to_.size(); at += chunk) {
        const std::uint64_t size = std::min(chunk, to_.size() - at);
        shape_end from = to_.part_of_source(at, size);
        lane *by = &lanes_.feeding_from_device();
        for (unsigned i = 0; i < on.count; ++i) {
            const shape_end part = to_.part_of(on.of[i], at, size);
            bad_index = index_of(on.of[i]);
            if (error failed = lanes_.copy(*by, from.device, part, from)) return failed;
            if (i + 1 == on.count) break;
            lane &next = lanes_.forwarding(on.of[i]);
            if (error failed = lanes_.order(*by, next)) return failed;
            from = part;
            by = &next;
        }
    }
    return {};
}

// Each chunk costs about 5 us, and each device gets its first bytes one chunk later than the previous device. On three
// H100, the best sizes are 8 MiB for 64 MiB, 16 for 256 and 32 for 1 GiB.
std::uint64_t broadcast::size_of_passed(unsigned devices) const noexcept {
    constexpr std::uint64_t largest = 256 * megabyte;
    std::uint64_t chunk = megabyte;
    while (chunk < largest && chunk * chunk / megabyte * (devices - 1) < 2 * to_.size())
        chunk *= 2;
    return devices == 1 ? to_.size() : chunk;
}

// Used if no lane is free, or if memory for lanes runs out. Not for files, which the caller's stream cannot copy to
// other devices.
error broadcast::copy_one_by_one(std::uint64_t &bad_index) noexcept {
    int device = -1;
    if (error failed = instance_.contexts.device_of_current(site_.context, device)) return failed;
    for (unsigned i = 0; i < to_.count(); ++i)
        if (error failed = lanes_.copy_line(to_.part_of(i, 0, to_.size()), to_.part_of_source(0, to_.size()), device,
                                            {.context = site_.context, .stream = site_.stream}, false)) {
            bad_index = index_of(i);
            return failed;
        }
    return {};
}

} // namespace
error run_broadcast(ferry_instance &instance, broadcast_sets &sets, std::size_t set, const launch_site &site,
                    bool was_idle, lane *before, std::uint64_t &bad_index) noexcept {
    static_assert(alignof(broadcast) <= alignof(std::max_align_t));
    void *const place = sets.place_for(sizeof(broadcast));
    if (!place) return no_memory;
    auto *const made = new (place) broadcast(instance, sets, set, site, was_idle, before);
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
