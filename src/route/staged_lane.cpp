#include "route/staged_lane.h"

#include "route/staged_rows.h"

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

void land(staged_job &job, const staged_slot &slot) noexcept {
    const std::uint64_t bytes = slot.chunk.bytes();
    job.landed.fetch_add(bytes, std::memory_order_relaxed);
    if (job.watch) job.watch->landed.fetch_add(bytes, std::memory_order_relaxed);
    job.chunks_left.fetch_sub(1, std::memory_order_release);
}

// Null where there is none left.
staged_slot *next_to_tell(staged_job &job, staged_lane &lane) noexcept {
    if (!has_room(job, lane) || lane.idle_count == 0) return nullptr;
    const std::uint64_t chunk = job.next_chunk.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= job.end_chunk) return nullptr;
    staged_slot *const slot = lane.idle[--lane.idle_count]; // what was used last is still in a cache
    slot->chunk = job.cut->chunk(chunk);
    return slot;
}

std::byte *begin_of(const staged_slot &slot) noexcept { return slot.host + slot.chunk.lead; }

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
        land(job, oldest_told(lane));
        take_back(lane);
    }
}

void take_back_all(staged_lane &lane) noexcept {
    while (lane.done != lane.told)
        take_back(lane);
}

bool has_arrived(const staged_job &job, std::uint32_t block) noexcept {
    return !job.is_to_device() && job.lanes[block].done != low_half(seen_by(job, block));
}

bool has_room(const staged_job &job, const staged_lane &lane) noexcept {
    return lane.is_attended && lane.told - lane.done < kernels::messages_at_once && job.has_chunks();
}

std::uint64_t advance(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    look_at(job, block);
    if (job.is_to_device()) {
        staged_slot *const slot = next_to_tell(job, lane);
        if (!slot) return 0;
        fill_slot(*job.cut, slot->chunk, begin_of(*slot), job.are_stores_streamed);
        tell_of(job, block, *slot);
        return slot->chunk.bytes();
    }
    std::uint64_t moved = 0;
    if (has_arrived(job, block)) {
        const staged_slot &slot = oldest_told(lane);
        empty_slot(*job.cut, slot.chunk, begin_of(slot), job.are_stores_streamed);
        moved = slot.chunk.bytes();
        land(job, slot);
        take_back(lane);
    }
    if (moved != 0 && is_over_share(job, lane)) return moved; // others wait for the slot
    while (staged_slot *const slot = next_to_tell(job, lane))
        tell_of(job, block, *slot);
    return moved;
}

} // namespace ferry
