// How the running launches of a device share the slots of its staging buffer.
#include <algorithm>

#include "staging/scheduler.h"

namespace ferry {

void staging_scheduler::add_slots(staging_buffers &buffers, staged_slot *first, std::uint32_t count) noexcept {
    const lock held = acquire();
    for (std::uint32_t i = 0; i < count; ++i)
        buffers.give(first[i]);
    buffers.count += count;
    buffers.update_share();
}

bool staging_scheduler::hold(const staging_buffers &buffers) noexcept {
    const lock held = acquire();
    holds_ += buffers.count != 0;
    return buffers.count != 0;
}

void staging_scheduler::let_go() noexcept {
    const lock held = acquire();
    --holds_;
}

bool staging_scheduler::take_slots(staging_buffers &buffers, bool first_lot) noexcept {
    const lock held = acquire();
    collect_lost_slots();
    const std::uint32_t wanted = buffers.used[first_lot ? 0 : 1];
    const auto is_wanted = [&](const staged_slot &slot) noexcept { return slot.is_of_first_lot == first_lot; };
    std::uint32_t found = 0;
    for (const staged_slot *slot = buffers.free.first(); slot; slot = slot->next)
        found += is_wanted(*slot);
    if (found != wanted || (first_lot && (pending_ || captured_ || holds_))) return false;
    for (staged_slot *next = buffers.free.first(); next;) {
        staged_slot &slot = *next;
        next = slot.next;
        if (is_wanted(slot)) buffers.free.remove(slot);
    }
    buffers.free_count -= found;
    buffers.count -= found;
    buffers.update_share();
    return true;
}

bool staging_scheduler::supply(staging_launch &launch, staging_channel &channel) noexcept {
    staging_buffers &buffers = *launch.buffers;
    if (!lost_.is_empty()) collect_lost_slots();
    while (channel.slots() < slots_each(launch) && launch.held < std::max(1U, buffers.share.load())) {
        staged_slot *const taken = buffers.take();
        if (!taken) break;
        ++launch.held;
        channel.idle[channel.idle_count++] = taken;
    }
    return channel.idle_count != 0;
}

// Gives back the channel's idle slots that the launch has no use for or that are beyond its share.
bool staging_scheduler::give_back_slots(staging_launch &launch, staging_channel &channel) noexcept {
    staging_buffers &buffers = *launch.buffers;
    const std::uint32_t before = channel.idle_count;
    const bool is_over = launch.is_lost || !launch.has_chunks();
    while (channel.idle_count != 0 &&
           (is_over || launch.held > buffers.share || channel.slots() > slots_each(launch))) {
        --launch.held;
        buffers.give(*channel.idle[--channel.idle_count]);
    }
    return channel.idle_count != before;
}

// ---- Slots of launches with stuck workers

// Takes the idle slots out of the channels of a launch with stuck workers, if other launches may want them.
void staging_scheduler::reclaim_slots(staging_launch &launch) noexcept {
    if (launch.buffers->copies < 2) return;
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
        staging_channel &channel = launch.channels[block];
        if (channel.is_taken && !channel.try_to_enter()) continue;
        look_at(launch, block);
        for (; channel.idle_count != 0; --launch.held)
            launch.buffers->give(*channel.idle[--channel.idle_count]);
        if (channel.is_taken) channel.leave();
    }
}

const staging_buffers *staging_scheduler::starved_buffers() noexcept {
    const lock held = acquire();
    for (const staging_launch *launch = running_.first(); launch; launch = launch->next)
        if (launch->stuck != 0 && !launch->is_to_device() && launch->buffers->copies > 1 &&
            launch->buffers->free_count == 0)
            return launch->buffers;
    return nullptr;
}

bool staging_scheduler::evacuate(staged_parcel &parcel) noexcept {
    const lock held = acquire();
    for (staging_launch *launch = running_.first(); launch; launch = launch->next) {
        if (launch->stuck == 0 || launch->is_to_device() || launch->buffers->copies < 2 ||
            launch->buffers->free_count != 0)
            continue;
        if (parcel.room < launch->buffers->slot_size + slot_margin) continue;
        for (std::uint32_t block = 0; block < launch->blocks; ++block) {
            staging_channel &channel = launch->channels[block];
            if (channel.is_taken && !channel.try_to_enter()) continue;
            const bool is_moved = move_to_parcel(*launch, block, parcel);
            if (is_moved) {
                --launch->held;
                launch->buffers->give(*channel.idle[--channel.idle_count]);
            }
            if (channel.is_taken) channel.leave();
            if (is_moved) return true;
        }
    }
    return false;
}

} // namespace ferry
