// A pool of pinned host memory for blocks that are allocated and freed often. It consists of slabs of blocks
// (pinned_slabs.h), and of the blocks that wait for the stream on which they were freed (pinned_waits.h). An allocation
// takes a ready block, or else a block whose stream has completed its event, or else grows the pool.
//
// No driver call runs with the mutex locked. A driver call may wait for space in a hardware queue, the queue may wait
// for a host function of the program, and the host function may free a block.
#pragma once

#include "ferry/ferry_memory.h"
#include "memory/pinned_waits.h"

namespace ferry {

class pinned_pool {
public:
    // Who uses the blocks. A program knows the context with which its blocks end. A pool of the instance allocates no
    // block from a slab that is older than the last change of the contexts in use.
    enum class use { of_program, of_instance };

    // Slabs are allocated according to `request`, in the context in use for `device`. A limit of 0 means no limit.
    pinned_pool(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const allocator &memory,
                const host_request &request, int device, std::uint64_t limit, use by = use::of_program) noexcept
        : cu_(cu), use_(by), slabs_(cu, contexts, pinned, memory, request, device, limit, by == use::of_instance),
          waits_(cu, contexts, memory, slabs_) {}

    // Without `may_grow`, returns FERRY_ERROR_LIMIT instead of pinning or releasing memory, which may wait.
    error allocate(std::uint64_t size, void *&address, bool may_grow = true) noexcept {
        return allocate_for(nullptr, size, may_grow, address);
    }
    // Whether a block of this size can be allocated now without growth.
    bool has_block(std::uint64_t size) noexcept;
    error allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept;
    error free(void *address) noexcept;
    error free_on(CUstream stream, void *address) noexcept;

    [[gnu::cold]] error trim(std::uint64_t keep) noexcept;
    error get_stats(ferry_pool_stats &stats) noexcept;
    [[gnu::cold]] error reset_stats() noexcept;

    // Must be called before the destructor. Returns FERRY_ERROR_IN_USE while the program has allocated blocks. After
    // any other failure, the pool is closed. Blocks that the instance has not freed end with the pool.
    [[gnu::cold]] error close() noexcept;
    // Returns FERRY_ERROR_IN_USE while the program has allocated blocks; else the bytes that the pool holds.
    [[gnu::cold]] error check_unused(std::uint64_t &held_bytes) noexcept;

private:
    // Null: for the host.
    error allocate_for(const stream_use *use, std::uint64_t size, bool may_grow, void *&address) noexcept;
    void *hand_out(pinned_block &one) noexcept;
    // Finds a block that can be used without waiting: a completed block, or else a block of a new slab, or else a larger
    // completed block.
    error find_or_grow(const stream_use *use, int block_class, bool may_grow, pool_lock &held,
                       pinned_block *&found) noexcept;
    // Makes space for a slab below the limit, or finds a block that has become ready in the meantime.
    [[gnu::cold]] error make_room(int block_class, bool may_release, pool_lock &held, pinned_block *&found) noexcept;
    // Locks the mutex and makes all completed blocks ready.
    [[gnu::cold]] error collect(pool_lock &held) noexcept;

    const driver_table &cu_;
    const use use_;

    std::mutex mutex_; // guards all other members
    pinned_slabs slabs_;
    pinned_waits waits_;
    std::size_t allocated_count_ = 0;
};

} // namespace ferry
