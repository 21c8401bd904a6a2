// One launch of a staged copy, and what a worker does for it. Each block of the kernel has a channel, which a worker
// takes to serve that block. A worker that has taken a channel needs no lock there.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/threads.h"
#include "device/tracked_contexts.h"
#include "staging/buffers.h"

namespace ferry {

// The progress of a copy, for the caller that asked for it. The object must live until `launches_left` is 0. That value
// is the last one written here. It is written before the stream passes the copy, unless the copy's context dies.
struct staged_progress {
    std::atomic<std::uint64_t> bytes_done = 0; // bytes that have arrived
    std::atomic<std::int32_t> status = FERRY_SUCCESS;
    std::atomic<std::uint32_t> launches_left = 0;

    bool is_done() const noexcept { return launches_left.load(std::memory_order_acquire) == 0; }
};

// Ordinary memory with the bytes of a slot that was needed before these bytes could be written to the program's memory.
struct staged_parcel {
    staged_chunk chunk = {};
    staged_parcel *next = nullptr;
    std::uint64_t room = 0; // bytes that follow this object

    std::byte *bytes() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
};

// Connects one block of a kernel with the worker that has taken the channel. While that worker is at the program's
// memory, whose pages may never come, other threads may enter the channel, one at a time. They must not touch the slot
// in the worker's hand.
struct alignas(64) staging_channel {
    static constexpr std::uint32_t max_slots = kernels::messages_at_once;
    // The bits of `visit`: the worker is away at the program's memory; another thread has entered. The other bits count
    // how often the worker has gone there.
    static constexpr std::uint32_t away = 1, entered = 2, one_visit = 4;

    std::uint32_t published = 0,
                  taken_back = 0; // total messages: published; of these, those whose slot has been taken back
    std::uint32_t ended = 0;      // number of ended runs, in 31 bits
    std::uint32_t idle_count = 0;
    std::uint32_t in_hand = 0; // slots in the worker's hand, 0 or 1
    bool is_present = false;   // the block is present for the run that ends next
    staged_slot *published_slots[max_slots] = {}, *idle[max_slots] = {};
    staged_parcel *parcels = nullptr;
    std::atomic<std::uint32_t> visit = 0;

    // Guarded by the scheduler's mutex. The members above, except `visit`, belong to the worker that has taken the
    // channel, to a thread that has entered it, or, while nobody has taken it, to the holder of the mutex.
    bool is_taken = false, is_by_server = false;
    bool is_stuck = false;        // the worker has been at one chunk for long
    std::uint32_t last_visit = 0; // `visit` as the watchdog last saw it, and since when:
    std::uint64_t last_visit_ns = 0;

    std::uint32_t slots() const noexcept { return published - taken_back + idle_count + in_hand; }

    void leave_for_memory() noexcept {
        visit.store((visit.load(std::memory_order_relaxed) & ~(away | entered)) + one_visit + away,
                    std::memory_order_release);
    }
    void come_back() noexcept {
        const std::uint32_t mine = visit.load(std::memory_order_relaxed) & ~entered;
        for (std::uint32_t expected = mine;
             !visit.compare_exchange_weak(expected, mine & ~away, std::memory_order_acquire, std::memory_order_relaxed);
             expected = mine)
            relax_processor();
    }
    // For other threads than the worker. They hold the scheduler's mutex, so only one enters at a time.
    bool try_to_enter() noexcept {
        std::uint32_t expected = visit.load(std::memory_order_relaxed);
        return (expected & away) != 0 &&
               visit.compare_exchange_strong(expected, expected | entered, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }
    void leave() noexcept { visit.store(visit.load(std::memory_order_relaxed) & ~entered, std::memory_order_release); }
};

struct staging_launch {
    // Kept across launches: the record, and what both sides have published there.
    kernels::ring_record *record = nullptr;
    std::uint64_t device_record = 0;
    staging_channel channels[kernels::max_ring_blocks];

    // Set for each launch.
    std::optional<staging> cut;
    staging_buffers *buffers = nullptr;
    staged_progress *progress = nullptr;
    staging_launch *next_launch = nullptr; // of the same copy
    const tracked_context *context = nullptr;
    std::uint64_t first_chunk = 0, end_chunk = 0;
    std::uint32_t blocks = 0;
    std::uint32_t max_slots_each = 1; // for each channel
    bool are_stores_streamed = false; // by the workers
    bool is_captured = false;         // may run many times, also concurrently
    bool caller_helps = false;        // until the copy is done

    // The state of the run.
    enum class state : std::uint8_t { unused, taken, launched, expected, running, leaving, withdrawn, lost };
    state at = state::unused;
    std::uint64_t use = 0; // how often the launch has been taken from the free list
    void *owner = nullptr; // the engine, for the host function that announces the launch
    std::uint32_t runs_expected = 0;
    std::int32_t loss = FERRY_SUCCESS; // why the launch is lost
    std::uint64_t lost_ns = 0;
    std::uint32_t held = 0, next_block = 0; // slots; the block whose channel is looked at first
    std::uint32_t stuck = 0;                // workers stuck when last inspected, and still at their channels
    staging_launch *previous = nullptr, *next = nullptr;
    // Accessed without the mutex too.
    std::atomic<bool> is_lost = false;
    std::atomic<std::uint32_t> busy = 0; // channels that are taken
    alignas(64) std::atomic<std::uint64_t> next_chunk = 0;
    std::atomic<std::uint64_t> chunks_left = 0, bytes_done = 0; // bytes_done: bytes that have arrived

    bool has_chunks() const noexcept { return next_chunk.load(std::memory_order_relaxed) < end_chunk; }
    bool is_to_device() const noexcept { return cut->box().to_device; }
};

// ---- What both sides publish in a record

// Returns whether any block is present for the run that ends next.
bool has_come(const staging_launch &launch) noexcept;
// Returns whether all blocks have left all runs that have ended.
bool has_left(const staging_launch &launch) noexcept;
// Returns whether any block has not reported that it has completed all published messages.
bool is_at_work(const staging_launch &launch) noexcept;
// Ends the run for all blocks, including blocks that have not come yet.
void publish_end(staging_launch &launch) noexcept;
// Makes all blocks trap, including blocks that have not come yet.
void abort_blocks(staging_launch &launch) noexcept;

// ---- For a channel that the caller has taken or entered, or that nobody can take

// Records whether the block is present. In copies to the device, takes back the slots that the block has read.
void look_at(staging_launch &launch, std::uint32_t block) noexcept;
// Takes back all slots, whatever the block is doing.
void take_back_all(staging_channel &channel) noexcept;
// In copies to the host: returns whether there are bytes to write to the program's memory.
bool has_arrived(const staging_launch &launch, std::uint32_t block) noexcept;
// Moves the bytes of a slot that the block has filled into the parcel. Returns false where no slot is filled.
bool move_to_parcel(staging_launch &launch, std::uint32_t block, staged_parcel &parcel) noexcept;
void free_parcel(const allocator &memory, staged_parcel *parcel) noexcept;
// Returns whether chunks are left, the block is present, and its mailbox has room for one more message.
bool has_room(const staging_launch &launch, const staging_channel &channel) noexcept;
// Does the next step for the block, and returns the number of bytes moved from or to the program's memory. 0: the next
// step is the block's, or there is no chunk or no slot.
std::uint64_t advance(staging_launch &launch, std::uint32_t block) noexcept;

// The number of slots that each channel of the launch gets.
inline std::uint32_t slots_each(const staging_launch &launch) noexcept {
    return std::clamp(launch.buffers->share.load(std::memory_order_relaxed) / launch.blocks, 1U, launch.max_slots_each);
}
// Where running launches outnumber slots, a launch has one slot, for one chunk.
inline bool is_over_share(const staging_launch &launch, const staging_channel &channel) noexcept {
    return channel.slots() > slots_each(launch) || launch.buffers->share.load(std::memory_order_relaxed) == 0;
}

} // namespace ferry
