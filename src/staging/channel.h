// The channel of a block: its connection to the host. A worker takes the channel to serve the block, and then needs no
// lock there.
#pragma once

#include <atomic>

#include "base/host.h"
#include "kernels/parameters.h"
#include "staging/buffers.h"
#include "system/threads.h"

namespace ferry {

// Ordinary memory for the bytes of a slot that was needed before the bytes could be written to the program's memory.
struct staged_parcel {
    staged_chunk chunk = {};
    staged_parcel *next = nullptr;
    std::uint64_t room = 0; // bytes that follow this object

    std::byte *bytes() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
};

// Connects one block of a kernel with the worker that has taken the channel. While that worker accesses the program's
// memory, where a page fault may block it forever, other threads may enter the channel, one at a time. They must not
// access the worker's current slot.
struct alignas(64) staging_channel {
    static constexpr std::uint32_t max_slots = gpu::messages_at_once;
    // The bits of `visit`. `away`: the worker is accessing the program's memory. `entered`: another thread has entered.
    // The other bits count the worker's accesses.
    static constexpr std::uint32_t away = 1, entered = 2, one_visit = 4;

    std::uint32_t published = 0;  // total number of messages
    std::uint32_t taken_back = 0; // messages whose slot has been taken back
    std::uint32_t ended = 0;      // number of ended runs, in 31 bits
    std::uint32_t idle_count = 0;
    std::uint32_t in_use = 0;        // slots that the worker is using, 0 or 1
    std::uint32_t first_message = 0; // of a copy-engine launch
    bool is_present = false;         // the block is present for the run that ends next
    staged_slot *published_slots[max_slots] = {}, *idle[max_slots] = {};
    staged_parcel *parcels = nullptr;
    std::atomic<std::uint32_t> visit = 0;

    // Guarded by the scheduler's mutex. The members above, except `visit`, belong to the worker that has taken the
    // channel, or to a thread that has entered it. While the channel is not taken, they belong to the holder of the
    // mutex.
    bool is_taken = false, is_by_server = false;
    bool is_stuck = false;        // the worker has spent a long time on one chunk
    std::uint32_t last_visit = 0; // the watchdog's last sample of `visit`, and the time of its last change:
    std::uint64_t last_visit_ns = 0;

    std::uint32_t slots() const noexcept { return published - taken_back + idle_count + in_use; }

    void leave_for_memory() noexcept {
        visit.store((visit.load(std::memory_order_relaxed) & ~(away | entered)) + one_visit + away,
                    std::memory_order_seq_cst); // before is_cut_short is read
    }
    void come_back() noexcept {
        const std::uint32_t mine = visit.load(std::memory_order_relaxed) & ~entered;
        for (std::uint32_t expected = mine;
             !visit.compare_exchange_weak(expected, mine & ~away, std::memory_order_acq_rel, std::memory_order_relaxed);
             expected = mine)
            relax_processor();
    }
    // Waits until the worker stops accessing the program's memory, if it is accessing it now.
    void wait_until_back() const noexcept {
        const std::uint32_t now = visit.load(std::memory_order_seq_cst) & ~entered;
        while ((now & away) != 0 && (visit.load(std::memory_order_acquire) & ~entered) == now)
            relax_processor();
    }
    // For threads other than the worker. They hold the scheduler's mutex, so only one enters at a time.
    bool try_to_enter() noexcept {
        std::uint32_t expected = visit.load(std::memory_order_relaxed);
        return (expected & away) != 0 &&
               visit.compare_exchange_strong(expected, expected | entered, std::memory_order_acquire,
                                             std::memory_order_relaxed);
    }
    void leave() noexcept { visit.store(visit.load(std::memory_order_relaxed) & ~entered, std::memory_order_release); }
};

void free_parcel(const allocator &memory, staged_parcel *parcel) noexcept;

} // namespace ferry
