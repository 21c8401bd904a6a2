// Shares the slots of a staging buffer among the running launches of a device.
#include "staging/scheduler.h"

#include <algorithm>

#include "base/rounding.h"

namespace ferry {

void staging_scheduler::add_slots(staging_buffers &buffers, staged_slot *first, std::uint32_t count) noexcept {
    const lock held = acquire();
    for (std::uint32_t i = 0; i < count; ++i)
        buffers.give(first[i]);
    buffers.count += count;
    buffers.update_share();
}

bool staging_scheduler::retain_lots(const staging_buffers &buffers) noexcept {
    const lock held = acquire();
    retains_ += buffers.count != 0;
    return buffers.count != 0;
}

void staging_scheduler::release_lots() noexcept {
    const lock held = acquire();
    --retains_;
}

std::uint32_t staging_scheduler::reserve_slots(staging_launch &launch, std::uint32_t blocks) noexcept {
    const lock held = acquire();
    if (launches_.has(launch_state::lost)) collect_lost_slots();
    staging_buffers &buffers = *launch.work.buffers;
    // A quarter of the slots stays free for an earlier launch, and an eighth of the rest for the next copy-engine launch.
    // Each slot passes through threads, waits and a copy in about 0.3 ms: beside a kernel that filled the device, ranges of a
    // file took 12, 16, 24 and 32 slots at 20, 22, 28 and 34 GB/s (H200, 2026-11-30).
    const std::uint32_t most = buffers.count - static_cast<std::uint32_t>(divide_up(buffers.count, 4));
    if (buffers.reserved >= most) return 0;
    blocks = std::min({blocks, std::max((most - buffers.reserved) * 7 / 8, 1U), buffers.free_count.load()});
    launch.shared.held += blocks;
    buffers.reserved += blocks;
    // Neighbours in the order of their addresses, which one driver copy can access. The last lots have the most slots.
    staged_slot *slot = buffers.slots + buffers.room;
    for (std::uint32_t left = blocks; left != 0;) {
        if (!(--slot)->is_free) continue;
        staging_channel &channel = launch.record.channels[--left];
        channel.idle[channel.idle_count++] = slot;
        buffers.take(*slot);
    }
    return blocks;
}

bool staging_scheduler::take_slots(staging_buffers &buffers, std::uint32_t lot) noexcept {
    const lock held = acquire();
    collect_lost_slots();
    const std::uint32_t wanted = buffers.used[lot];
    const auto is_wanted = [&](const staged_slot &slot) noexcept { return slot.lot == lot; };
    std::uint32_t found = 0;
    for (const staged_slot *slot = buffers.free.first(); slot; slot = slot->next)
        found += is_wanted(*slot);
    if (found != wanted || buffers.reserved != 0 || (lot == 0 && (pending_ || captured_ || retains_))) return false;
    for (staged_slot *next = buffers.free.first(); next;) {
        staged_slot &slot = *next;
        next = slot.next;
        if (is_wanted(slot)) buffers.take(slot);
    }
    buffers.count -= found;
    buffers.update_share();
    return true;
}

// Takes slots for the channel up to its share. Returns whether it has an idle slot.
bool staging_scheduler::supply(staging_launch &launch, staging_channel &channel) noexcept {
    if (launches_.has(launch_state::lost)) collect_lost_slots();
    while (compare_with_share(launch, channel) == slot_share::under) {
        staged_slot *const taken = launch.work.buffers->take();
        if (!taken) break;
        ++launch.shared.held;
        channel.idle[channel.idle_count++] = taken;
    }
    return channel.idle_count != 0;
}

// Returns idle slots of the channel that the launch does not need or that exceed its share.
bool staging_scheduler::return_slots(staging_launch &launch, staging_channel &channel) noexcept {
    const std::uint32_t before = channel.idle_count;
    if (launch.shared.is_cut_short) return false;
    const bool is_useless = launch.shared.is_lost || !launch.has_chunks();
    while (channel.idle_count != 0 && (is_useless || compare_with_share(launch, channel) == slot_share::over))
        return_slot(launch, channel);
    return channel.idle_count != before;
}

void staging_scheduler::return_slot(staging_launch &launch, staging_channel &channel) noexcept {
    --launch.shared.held;
    if (launch.work.by_copies) --launch.work.buffers->reserved;
    launch.work.buffers->give(*channel.idle[--channel.idle_count]);
}

// ---- Slots of launches with stuck workers

// Takes the idle slots out of the channels of a launch with stuck workers, if other launches may need them.
void staging_scheduler::reclaim_slots(staging_launch &launch) noexcept {
    if (launch.work.buffers->copies < 2 || launch.work.by_copies) return;
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
        staging_channel &channel = launch.record.channels[block];
        if (channel.is_taken && !channel.try_to_enter()) continue;
        look_at(launch, block);
        while (channel.idle_count != 0)
            return_slot(launch, channel);
        if (channel.is_taken) channel.leave();
    }
}

// Returns whether the launch has slots that are filled for stuck workers while other launches wait for a slot.
bool staging_scheduler::hoards_slots(const staging_launch &launch) noexcept {
    const staging_buffers &buffers = *launch.work.buffers;
    return launch.run.stuck != 0 && !launch.work.is_to_device() && !launch.work.by_copies && buffers.copies > 1 &&
           buffers.free_count == 0;
}

const staging_buffers *staging_scheduler::starved_buffers() noexcept {
    const lock held = acquire();
    for (const staging_launch *launch = launches_.first(launch_state::running); launch; launch = launch->next)
        if (hoards_slots(*launch)) return launch->work.buffers;
    return nullptr;
}

bool staging_scheduler::evacuate(staged_parcel &parcel) noexcept {
    const lock held = acquire();
    for (staging_launch *launch = launches_.first(launch_state::running); launch; launch = launch->next) {
        if (!hoards_slots(*launch) || parcel.room < launch->work.buffers->slot_size + slot_margin) continue;
        for (std::uint32_t block = 0; block < launch->work.blocks; ++block) {
            staging_channel &channel = launch->record.channels[block];
            if (channel.is_taken && !channel.try_to_enter()) continue;
            const bool is_moved = move_to_parcel(*launch, block, parcel);
            if (is_moved) return_slot(*launch, channel);
            if (channel.is_taken) channel.leave();
            if (is_moved) return true;
        }
    }
    return false;
}

} // namespace ferry
