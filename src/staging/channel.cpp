#include "staging/channel.h"

#include <cstring>

#include "staging/host_copy.h"

namespace ferry {

namespace {

constexpr std::uint32_t low_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

std::uint64_t seen_by(const staged_job &job, std::uint32_t block) noexcept {
    return std::atomic_ref(job.record->seen[block]).load(std::memory_order_acquire);
}

bool is_attended(std::uint64_t seen, const staged_lane &lane) noexcept {
    return high_half(seen) == (lane.ended << 1 | 1);
}
bool is_left(std::uint64_t seen, const staged_lane &lane) noexcept { return high_half(seen) == lane.ended << 1; }

void tell_of(staged_job &job, std::uint32_t block, staged_slot &slot) noexcept {
    staged_lane &lane = job.lanes[block];
    const std::uint32_t place = lane.told % kernels::messages_at_once;
    const std::uint64_t mark = kernels::ring_mark(lane.told);
    const auto put = [&](std::uint64_t &word, std::uint64_t value) noexcept {
        std::atomic_ref(word).store(value << 1 | mark, std::memory_order_release);
    };
    kernels::ring_message &message = job.record->mailboxes[block].messages[place];
    put(message.slot, slot.device_address + slot.chunk.lead - job.device_record);
    put(message.first, slot.chunk.first);
    put(message.count, slot.chunk.count);
    lane.told_of[place] = &slot;
    ++lane.told;
}

staged_slot &oldest_told(staged_lane &lane) noexcept { return *lane.told_of[lane.done % kernels::messages_at_once]; }

void take_back(staged_lane &lane) noexcept {
    staged_slot &slot = oldest_told(lane);
    ++lane.done;
    lane.idle[lane.idle_count++] = &slot;
}

void land(staged_job &job, const staged_chunk &chunk) noexcept {
    const std::uint64_t bytes = chunk.bytes();
    job.landed.fetch_add(bytes, std::memory_order_relaxed);
    if (job.watch) job.watch->landed.fetch_add(bytes, std::memory_order_relaxed);
    job.chunks_left.fetch_sub(1, std::memory_order_release);
}

// As long as the thread is at the program's memory, which may be for ever.
struct at_memory {
    explicit at_memory(staged_lane &lane) noexcept : lane(lane) { lane.leave_for_memory(); }
    ~at_memory() { lane.come_back(); }
    at_memory(const at_memory &) = delete;
    staged_lane &lane;
};

// Null where there is none left, or another thread has the chunk that was wanted.
staged_slot *next_to_tell(staged_job &job, staged_lane &lane, std::optional<std::uint64_t> wanted = {}) noexcept {
    if (!has_room(job, lane) || lane.idle_count == 0) return nullptr;
    std::uint64_t chunk = wanted.value_or(0);
    if (!wanted)
        chunk = job.next_chunk.fetch_add(1, std::memory_order_relaxed);
    else if (!job.next_chunk.compare_exchange_strong(chunk, chunk + 1, std::memory_order_relaxed))
        return nullptr;
    if (chunk >= job.end_chunk) return nullptr;
    staged_slot *const slot = lane.idle[--lane.idle_count]; // what was used last is still in a cache
    slot->chunk = job.cut->chunk(chunk);
    return slot;
}

std::byte *begin_of(const staged_slot &slot) noexcept { return slot.host + slot.chunk.lead; }

bool is_filled(const staged_job &job, std::uint32_t block) noexcept {
    return !job.is_to_device() && job.lanes[block].done != low_half(seen_by(job, block));
}

std::uint64_t fill_next(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    std::optional<std::uint64_t> touched;
    if (job.ring->is_crowded() && has_room(job, lane)) {
        touched = std::min(job.next_chunk.load(std::memory_order_relaxed), job.end_chunk - 1);
        const at_memory away(lane);
        touch_source(*job.cut, job.cut->chunk(*touched));
    }
    staged_slot *const slot = next_to_tell(job, lane, touched);
    if (!slot) return 0;
    lane.in_hand = 1;
    {
        const at_memory away(lane);
        fill_slot(*job.cut, slot->chunk, begin_of(*slot), job.are_stores_streamed);
    }
    lane.in_hand = 0;
    tell_of(job, block, *slot);
    return slot->chunk.bytes();
}

std::uint64_t deliver_parcel(staged_job &job, staged_lane &lane) noexcept {
    staged_parcel *const parcel = lane.parcels;
    lane.parcels = parcel->next;
    const staged_chunk chunk = parcel->chunk;
    {
        const at_memory away(lane);
        empty_slot(*job.cut, chunk, parcel->bytes() + chunk.lead, false);
        free_parcel(*job.ring->parcel_memory, parcel);
    }
    land(job, chunk);
    return chunk.bytes();
}

std::uint64_t empty_next(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    if (!lane.parcels && is_filled(job, block) && job.ring->is_crowded()) {
        const staged_chunk chunk = oldest_told(lane).chunk;
        const at_memory away(lane);
        touch_destination(*job.cut, chunk);
    }
    if (lane.parcels) return deliver_parcel(job, lane);
    if (!is_filled(job, block)) return 0;
    staged_slot &slot = oldest_told(lane);
    ++lane.done;
    lane.in_hand = 1;
    {
        const at_memory away(lane);
        empty_slot(*job.cut, slot.chunk, begin_of(slot), job.are_stores_streamed);
    }
    lane.in_hand = 0;
    land(job, slot.chunk);
    lane.idle[lane.idle_count++] = &slot;
    return slot.chunk.bytes();
}

} // namespace

bool has_come(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (is_attended(seen_by(job, block), job.lanes[block])) return true;
    return false;
}

bool has_left(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (!is_left(seen_by(job, block), job.lanes[block])) return false;
    return true;
}

bool is_at_work(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (low_half(seen_by(job, block)) != job.lanes[block].told) return true;
    return false;
}

void tell_end(staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        staged_lane &lane = job.lanes[block];
        lane.ended = (lane.ended + 1) & 0x7fffffff;
        lane.is_attended = false;
        std::atomic_ref(job.record->mailboxes[block].ended).store(lane.ended, std::memory_order_release);
    }
}

void abort_blocks(staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        std::atomic_ref(job.record->mailboxes[block].ended).store(kernels::ring_aborted, std::memory_order_release);
}

void look_at(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    const std::uint64_t seen = seen_by(job, block);
    lane.is_attended = is_attended(seen, lane);
    while (job.is_to_device() && lane.done != low_half(seen)) {
        land(job, oldest_told(lane).chunk);
        take_back(lane);
    }
}

void take_back_all(staged_lane &lane) noexcept {
    while (lane.done != lane.told)
        take_back(lane);
}

bool has_arrived(const staged_job &job, std::uint32_t block) noexcept {
    return job.lanes[block].parcels || is_filled(job, block);
}

bool move_to_parcel(staged_job &job, std::uint32_t block, staged_parcel &parcel) noexcept {
    if (!is_filled(job, block)) return false;
    staged_lane &lane = job.lanes[block];
    const staged_slot &slot = oldest_told(lane);
    parcel.chunk = slot.chunk;
    std::memcpy(parcel.bytes(), slot.host, std::min(parcel.room, job.ring->slot_size + slot_margin));
    take_back(lane);
    staged_parcel **last = &lane.parcels;
    while (*last)
        last = &(*last)->next;
    *last = &parcel;
    return true;
}

void free_parcel(const allocator &memory, staged_parcel *parcel) noexcept {
    if (parcel) memory.deallocate(parcel, sizeof(staged_parcel) + parcel->room);
}

bool has_room(const staged_job &job, const staged_lane &lane) noexcept {
    return lane.is_attended && lane.told - lane.done < kernels::messages_at_once && job.has_chunks();
}

std::uint64_t advance(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    look_at(job, block);
    if (job.is_to_device()) return fill_next(job, block);
    const std::uint64_t moved = empty_next(job, block);
    if (moved != 0 && is_over_share(job, lane)) return moved; // others wait for the slot
    while (staged_slot *const slot = next_to_tell(job, lane))
        tell_of(job, block, *slot);
    return moved;
}

} // namespace ferry
