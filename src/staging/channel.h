// A staged copy as one launch has it, and what a thread does at it: each block of the kernel has a lane, which a thread takes
// to serve that block. Whoever has taken a lane needs no lock there.
#pragma once

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/threads.h"
#include "device/tracked_contexts.h"
#include "staging/buffers.h"

namespace ferry {

// How far a copy is, for whoever asked for it. It stays until no launch is left, which is the last that is written, and
// comes before the stream passes the copy unless its context dies.
struct staged_progress {
    std::atomic<std::uint64_t> bytes_done = 0; // bytes
    std::atomic<std::int32_t> status = FERRY_SUCCESS;
    std::atomic<std::uint32_t> launches_left = 0;

    bool is_done() const noexcept { return launches_left.load(std::memory_order_acquire) == 0; }
};

// The bytes of a slot that had to be freed before they could be written to the program's memory.
struct staged_parcel {
    staged_chunk chunk = {};
    staged_parcel *next = nullptr;
    std::uint64_t room = 0; // bytes behind this

    std::byte *bytes() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
};

// Between one block of a kernel, and the thread that has taken it. While that thread is at the program's memory, whose
// pages may never come, others may enter the lane, but for the slot in the thread's hand.
struct alignas(64) staging_channel {
    static constexpr std::uint32_t max_slots = kernels::messages_at_once;
    // Of `visit`: the thread is away, somebody has entered; the rest counts how often it has gone.
    static constexpr std::uint32_t away = 1, entered = 2, one_visit = 4;

    std::uint32_t told = 0, done = 0; // messages, ever
    std::uint32_t ended = 0;          // runs, in 31 bits
    std::uint32_t idle_count = 0;
    std::uint32_t in_hand = 0; // slots
    bool is_attended = false;  // by the block, for the run that is next to end
    staged_slot *told_of[max_slots] = {}, *idle[max_slots] = {};
    staged_parcel *parcels = nullptr;
    std::atomic<std::uint32_t> visit = 0;

    // Guarded by the board's mutex; the rest belongs to the thread that has taken the lane.
    bool is_taken = false, is_by_server = false;
    bool is_stuck = false;        // the thread has been at one chunk for long
    std::uint32_t last_visit = 0; // as it was seen, first at:
    std::uint64_t last_visit_ns = 0;

    std::uint32_t slots() const noexcept { return told - done + idle_count + in_hand; }

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
    // For others, one at a time.
    bool try_to_enter() noexcept {
        std::uint32_t expected = visit.load(std::memory_order_relaxed);
        return (expected & away) != 0 &&
               visit.compare_exchange_strong(expected, expected | entered, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }
    void leave() noexcept { visit.store(visit.load(std::memory_order_relaxed) & ~entered, std::memory_order_release); }
};

struct staging_launch {
    // For good: its record, and what both sides have said there.
    kernels::ring_record *record = nullptr;
    std::uint64_t device_record = 0;
    staging_channel lanes[kernels::max_ring_blocks];

    // Of the launch.
    std::optional<staging> cut;
    staging_buffers *ring = nullptr;
    staged_progress *watch = nullptr;
    staging_launch *next_launch = nullptr; // of the same copy
    const tracked_context *context = nullptr;
    std::uint64_t first_chunk = 0, end_chunk = 0;
    std::uint32_t blocks = 0;
    std::uint32_t max_slots_each = 1; // of a lane
    bool are_stores_streamed = false; // by the threads
    bool is_captured = false;         // may run again and again, and several times at once
    bool caller_helps = false;        // until the copy is done

    // Of the run.
    enum class state : std::uint8_t { unused, taken, launched, expected, under_way, leaving, given_back, lost };
    state at = state::unused;
    std::uint64_t use = 0; // how often it has been taken
    void *owner = nullptr; // for the host function that expects it
    std::uint32_t runs_expected = 0;
    std::int32_t loss = FERRY_SUCCESS; // why it is lost
    std::uint64_t lost_ns = 0;
    std::uint32_t held = 0, next_block = 0; // slots, and whose lane is looked at first
    std::uint32_t stuck = 0;                // threads at its lanes, when last inspected
    staging_launch *previous = nullptr, *next = nullptr;
    // For threads without the mutex.
    std::atomic<bool> is_lost = false;
    std::atomic<std::uint32_t> busy = 0; // lanes that are taken
    alignas(64) std::atomic<std::uint64_t> next_chunk = 0;
    std::atomic<std::uint64_t> chunks_left = 0, bytes_done = 0; // bytes

    bool has_chunks() const noexcept { return next_chunk.load(std::memory_order_relaxed) < end_chunk; }
    bool is_to_device() const noexcept { return cut->box().to_device; }
};

// ---- What both sides say in a record

// A block of any is there for the run that ends next; all have left those that have ended.
bool has_come(const staging_launch &launch) noexcept;
bool has_left(const staging_launch &launch) noexcept;
// Some have not said that they have done all they were told.
bool is_at_work(const staging_launch &launch) noexcept;
// Ends the run for all blocks, for those too that have not come yet.
void tell_end(staging_launch &launch) noexcept;
// Makes all blocks trap, those too that have not come yet.
void abort_blocks(staging_launch &launch) noexcept;

// ---- At a lane that is taken, entered, or that nobody can take

// Notes whether the block is there. Of copies to the device it takes back slots that the block has read.
void look_at(staging_launch &launch, std::uint32_t block) noexcept;
// Whatever the block is at.
void take_back_all(staging_channel &lane) noexcept;
// Of copies to the host: there are bytes to write to the program's memory.
bool has_arrived(const staging_launch &launch, std::uint32_t block) noexcept;
// Moves the bytes of a slot that the block has filled into the parcel; false where there are none.
bool move_to_parcel(staging_launch &launch, std::uint32_t block, staged_parcel &parcel) noexcept;
void free_parcel(const allocator &memory, staged_parcel *parcel) noexcept;
// There are chunks, and the block may be told of one more than it has.
bool has_room(const staging_launch &launch, const staging_channel &lane) noexcept;
// The bytes that it has moved from or to the program's memory; 0: it is for the block to go on, or chunks or slots are
// wanting.
std::uint64_t advance(staging_launch &launch, std::uint32_t block) noexcept;

// Each lane gets as many.
inline std::uint32_t slots_each(const staging_launch &launch) noexcept {
    return std::clamp(launch.ring->share.load(std::memory_order_relaxed) / launch.blocks, 1U, launch.max_slots_each);
}
// Where copies outnumber slots, each has one for one chunk.
inline bool is_over_share(const staging_launch &launch, const staging_channel &lane) noexcept {
    return lane.slots() > slots_each(launch) || launch.ring->share.load(std::memory_order_relaxed) == 0;
}

} // namespace ferry
