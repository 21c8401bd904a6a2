// The pinned memory of staged copies. Each device has a staging buffer, which consists of slots that chunks pass
// through. The records through which kernels and workers communicate (gpu::ring_record) serve all devices.
//
// Slots are allocated in lots. The first lot, a few slots, is allocated before any kernel is launched. So no kernel
// ever waits for an allocation, which may in turn wait for the kernel. The other lots may be added at any time: the
// second lot, and one more lot for each additional link that copies of the device use.
#pragma once

#include <atomic>

#include "base/chain.h"
#include "device/contexts.h"
#include "memory/pinned.h"
#include "plan/staged_chunks.h"
#include "staging/recent_delay.h"
#include "system/pages.h"

namespace ferry {

// Memory that the host and the kernels of all devices can access, in all contexts.
struct staged_memory {
    host_block block = {};
    std::uint64_t device_address = 0;

    explicit operator bool() const noexcept { return block.size != 0; }
    std::byte *host() const noexcept { return reinterpret_cast<std::byte *>(block.address); }

    // Allocates in the current context: `size` bytes, or fewer if that fails, but at least `least`.
    error allocate(const driver_table &cu, pinned_memory &pinned, std::uint64_t size, std::uint64_t least, int node,
                   host_owner owner) noexcept;
    // Waits for the work that runs on the devices. Memory that the driver fails to free stays in this object. May be
    // called by any thread: without a current context, it enters one temporarily.
    error free(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned) noexcept;
};

struct staged_slot {
    std::byte *host = nullptr;
    std::uint64_t device_address = 0;
    std::uint32_t lot = 0;   // one allocation for each lot
    bool is_free = false;    // guarded by the scheduler's mutex, like `free`
    staged_chunk chunk = {}; // the chunk that the slot contains, or will contain
    staged_slot *previous = nullptr, *next = nullptr;
};

// The slots of one device. Members that are not marked as guarded belong to the thread that sets up the slots.
struct staging_buffers {
    static constexpr std::uint32_t max_slots = 1024, max_lots = 5;

    staged_memory memory[max_lots];
    std::uint64_t slot_size = 0;  // bytes
    staged_slot *slots = nullptr; // an array of `room` slots
    std::uint32_t room = 0;
    std::uint32_t used[max_lots] = {}; // number of slots of each lot
    // The home node of the servers that prefer this device's copies; any_node: no preference.
    std::atomic<int> home = any_node;
    const allocator *parcel_memory = nullptr;
    // Guarded by the scheduler's mutex. Atomics may be read without it.
    chain<staged_slot> free;
    std::atomic<std::uint32_t> free_count = 0;
    std::atomic<std::uint32_t> count = 0, at_channels = 0; // slots; workers that serve channels
    std::uint32_t copies = 0;                              // running launches. Changed by change_copies()
    std::uint32_t reserved = 0;                            // reserved by copy-engine launches, also before these run
    std::atomic<std::uint32_t> share = 0;                  // slots per running launch
    recent_delay start_delay;                              // of kernels at the head of a stream
    std::atomic<std::uint32_t> cancelled = 0;              // cancelled launches whose kernels have not started yet
    std::atomic<std::uint64_t> failed_files = 0;           // failed copies of files

    // Returns whether every slot could be in use by a worker that is blocked in a page fault. In that case, workers
    // touch the pages of a chunk before they take a slot.
    bool is_crowded() const noexcept {
        return at_channels.load(std::memory_order_relaxed) >= count.load(std::memory_order_relaxed);
    }
    void change_copies(int by) noexcept {
        const bool were_any = copies != 0;
        copies += static_cast<std::uint32_t>(by);
        at_work_ += (copies != 0) - were_any;
        update_share();
    }
    // The number of devices that are copying now, over all engines of the process.
    static int devices_at_work() noexcept { return at_work_.load(std::memory_order_relaxed); }
    void update_share() noexcept { share = copies ? count / copies : count.load(); }

    staged_slot *take() noexcept {
        staged_slot *const taken = free.first();
        if (taken) take(*taken);
        return taken;
    }
    void take(staged_slot &taken) noexcept {
        free.remove(taken);
        taken.is_free = false;
        --free_count;
    }
    void give(staged_slot &returned) noexcept {
        returned.is_free = true;
        free.push_front(returned); // the slot used last is still in a cache
        ++free_count;
    }

private:
    static inline std::atomic<int> at_work_ = 0;
};

} // namespace ferry
