// A pool of pinned host memory for blocks that are allocated and freed often: slabs of blocks (pinned_slabs.h), and the
// blocks that wait for the stream they were freed on (pinned_waits.h). An allocation takes a ready block, else one whose
// stream has passed its event, else it grows the pool.
//
// No driver call runs under the mutex. A driver call may wait for room in a hardware queue, the queue for a host
// function of the program, and the host function may free a block.
#pragma once

#include "memory/pinned_waits.h"

namespace ferry {

class pinned_pool {
public:
    // Who uses the blocks. A program knows the context with which its blocks end. A pool of the instance hands out no
    // block from a slab that was allocated before the contexts in use changed.
    enum class use { of_program, of_instance };

    // Slabs are allocated as `request` says, in the context in use for `device`. A limit of 0 means no limit.
    pinned_pool(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const allocator &memory,
                const host_request &request, int device, std::uint64_t limit, use by = use::of_program) noexcept
        : cu_(cu), use_(by), slabs_(cu, contexts, pinned, memory, request, device, limit, by == use::of_instance),
          waits_(cu, contexts, memory, slabs_) {}

    error allocate(std::uint64_t size, void *&address) noexcept { return allocate_for(nullptr, size, address); }
    error allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept;
    error free(void *address) noexcept;
    error free_on(CUstream stream, void *address) noexcept;

    [[gnu::cold]] error trim(std::uint64_t keep) noexcept;
    error get_stats(ferry_pool_stats &stats) noexcept;
    [[gnu::cold]] error reset_stats() noexcept;

    // Must be called before the destructor. Returns FERRY_ERROR_IN_USE while the program holds blocks; after any other
    // failure the pool is closed all the same. Blocks that the instance has not freed end with the pool.
    [[gnu::cold]] error close() noexcept;

private:
    error allocate_for(const stream_use *use, std::uint64_t size, void *&address) noexcept; // null: for the host
    void *hand_out(pinned_block &one) noexcept;
    // Finds a block that needs no wait: a completed one, else one of a new slab.
    error find_or_grow(int block_class, pool_lock &held, pinned_block *&found) noexcept;
    // Finds room for a slab below the limit, or a block that has become ready in the meantime.
    [[gnu::cold]] error make_room(int block_class, pool_lock &held, pinned_block *&found) noexcept;
    // Locks the mutex and makes all completed blocks ready.
    [[gnu::cold]] error collect(pool_lock &held) noexcept;

    const driver_table &cu_;
    const use use_;

    std::mutex mutex_; // guards the rest
    pinned_slabs slabs_;
    pinned_waits waits_;
    std::size_t allocated_count_ = 0;
};

} // namespace ferry
