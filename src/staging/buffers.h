// The pinned memory of staged copies: for each device slots that chunks go through, and for all of them the records where
// kernels and threads meet (kernels::ring_record). Slots come in two lots: the first few before any kernel is launched,
// so that no kernel ever waits for an allocation, which may in turn wait for the kernel; the others whenever.
#pragma once

#include <atomic>

#include "base/chain.h"
#include "memory/pinned.h"
#include "plan/staged_chunks.h"

namespace ferry {

// Memory that the host and the devices' kernels know, in all contexts.
struct staged_memory {
    host_block block = {};
    std::uint64_t device_address = 0;

    explicit operator bool() const noexcept { return block.size != 0; }
    std::byte *host() const noexcept { return reinterpret_cast<std::byte *>(block.address); }

    // In the current context: at least `least` bytes, or `size` if that can be had.
    error allocate(const driver_table &cu, pinned_memory &pinned, std::uint64_t size, std::uint64_t least,
                   int node) noexcept;
    // Waits for what runs on the devices. Memory that the driver does not take back stays.
    error free(pinned_memory &pinned) noexcept;
};

struct staged_slot {
    std::byte *host = nullptr;
    std::uint64_t device_address = 0;
    bool is_of_first_lot = false;
    staged_chunk chunk = {}; // what it holds, or is to hold
    staged_slot *previous = nullptr, *next = nullptr;
};

// Of one device. What is not said to be guarded belongs to whoever sets the ring up.
struct staging_buffers {
    static constexpr std::uint32_t max_slots = 1024;

    staged_memory memory[2];      // of the lots
    std::uint64_t slot_size = 0;  // bytes
    staged_slot *slots = nullptr; // `room` of them
    std::uint32_t room = 0;
    std::uint32_t used[2] = {}; // slots of each lot
    const allocator *parcel_memory = nullptr;
    // Guarded by the board's mutex, but that atomics may be read without.
    chain<staged_slot> free;
    std::atomic<std::uint32_t> free_count = 0;
    std::atomic<std::uint32_t> count = 0, at_lanes = 0; // slots, and threads at lanes
    std::uint32_t copies = 0;                           // that are under way
    std::atomic<std::uint32_t> share = 0;               // slots for each of these

    // Every slot could be in the hand of a thread whose pages do not come. Threads touch them first then.
    bool is_crowded() const noexcept {
        return at_lanes.load(std::memory_order_relaxed) >= count.load(std::memory_order_relaxed);
    }
    void share_out() noexcept { share = copies ? count / copies : count.load(); }

    staged_slot *take() noexcept {
        staged_slot *const taken = free.pop();
        free_count -= taken != nullptr;
        return taken;
    }
    void give(staged_slot &done) noexcept {
        free.push_front(done); // what was used last is still in a cache
        ++free_count;
    }
};

} // namespace ferry
