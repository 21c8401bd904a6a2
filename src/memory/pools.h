// Creates, queries and manages pools of stream-ordered memory. The driver reports neither the location of a pool nor
// how it was created, so ferry records the pools that it creates. All calls need a current context. If another thread
// may be capturing, they also need a relaxed capture mode (device/capture_mode.h).
#pragma once

#include <atomic>
#include <mutex>

#include "base/compiler.h"
#include "base/growing.h"
#include "device/contexts.h"
#include "ferry/ferry_memory.h"

namespace ferry {

// The location of a pool's memory, as in ferry_pool_desc.
struct pool_location {
    std::int32_t location = FERRY_LOCATION_DEVICE; // FERRY_LOCATION_*
    std::int32_t index = 0;

    bool is_on_device(int device) const noexcept { return location == FERRY_LOCATION_DEVICE && index == device; }
};

struct pool_record {
    CUmemoryPool pool = nullptr;
    pool_location where; // this and the next two members: only for pools that ferry created
    std::uint32_t handle_types = 0;
    std::uint64_t max_size = 0;
    bool is_made = false;            // by ferry_pool_create; false if only the next two members are known
    bool is_ended = false;           // by the program, while the driver still has the pool
    std::uint64_t proven_access = 0; // one bit per device: data was transferred to and from that device
};

class memory_pools {
public:
    memory_pools(const driver_table &cu, const device_facts *devices, device_contexts &contexts,
                 const allocator &memory) noexcept
        : cu_(cu), devices_(devices), contexts_(contexts), records_(memory) {}

    // Creates a pool. The description must be valid.
    error create(const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept;
    // Checks that a pool can be destroyed. CUDA 13.0 crashes the process some time after a pool was destroyed while its
    // memory was still allocated or while a free was pending on a stream (H200). Waits for pending frees, and trims the
    // pool.
    error wait_until_unused(CUmemoryPool pool) noexcept;
    // Waits until the pool has no memory any more, not even memory that is free. FERRY_ERROR_IN_USE if the memory may
    // still be used on streams of contexts that ferry does not know.
    error wait_until_released(CUmemoryPool pool) noexcept;
    // Destroys an unused pool. Rejects a default pool.
    error destroy(CUmemoryPool pool) noexcept;
    // Returns FERRY_ERROR_IN_USE if memory of the pool is allocated. Waits for nothing: frees must have completed. Trims
    // the pool.
    error check_unused(CUmemoryPool pool) noexcept;

    // Records that the program has ended a pool, which is destroyed later. Returns FERRY_ERROR_INVALID_ARGUMENT for a
    // default pool.
    error mark_ended(CUmemoryPool pool) noexcept;
    void unmark_ended(CUmemoryPool pool) noexcept;
    bool is_ended(CUmemoryPool pool) noexcept {
        return is_unlikely(has_ended_.load(std::memory_order_relaxed)) && is_marked(pool);
    }
    // Makes the default pool current again if the pool is the current pool of `where`.
    void replace_current(CUmemoryPool pool, const pool_location &where) noexcept;

    // Finds the record of a pool; false if not found.
    bool find(CUmemoryPool pool, pool_record &found) noexcept;
    // Finds the location of a pool that ferry created, or that is the default or the current pool of a location. Returns
    // false, and an unknown location, for others.
    bool find_location(CUmemoryPool pool, pool_location &where) noexcept;
    // Finds the location of any pool of this process. Allocates a byte from those that find_location does not find.
    error locate(CUmemoryPool pool, pool_location &where) noexcept;
    error is_default(CUmemoryPool pool, const pool_location &where, bool &is) const noexcept;

    // The default and current pools of a location, which must exist.
    error get_default(const pool_location &of, CUmemoryPool &pool) const noexcept;
    error get_current(const pool_location &of, CUmemoryPool &pool) const noexcept;
    error set_current(const pool_location &of, CUmemoryPool pool) const noexcept;

    // Must be locked while access changes, until the access is proven: a copy in flight that loses its access kills its
    // context.
    std::mutex access_mutex;
    error get_access(CUmemoryPool pool, int device, std::int32_t &access) const noexcept;
    error set_access(CUmemoryPool pool, int device, std::int32_t access) const noexcept;
    // Records that data was transferred between the pool and the device.
    error note_proven_access(CUmemoryPool pool, int device) noexcept;
    bool access_is_proven(CUmemoryPool pool, int device) noexcept;

private:
    pool_record *find(CUmemoryPool pool) noexcept; // requires mutex_
    bool is_of(CUmemoryPool pool, const pool_location &where) const noexcept;
    bool is_any_default(CUmemoryPool pool) const noexcept;
    [[gnu::cold]] bool is_marked(CUmemoryPool pool) noexcept;
    error trim(CUmemoryPool pool, ferry_pool_stats &stats) noexcept;
    error synchronise_all() noexcept;
    error locate_by_allocation(CUmemoryPool pool, pool_location &where) noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    std::mutex mutex_; // guards the records; unlocked during driver calls
    growing<pool_record> records_;
    std::atomic<bool> has_ended_ = false; // whether a pool was ever marked
};

// For pools of this process. The driver rejects imported pools.
error get_pool_attributes(const driver_table &cu, CUmemoryPool pool, ferry_pool_attributes &attributes) noexcept;
// Sets the attributes within the first `known` bytes.
error set_pool_attributes(const driver_table &cu, CUmemoryPool pool, const ferry_pool_attributes &attributes,
                          std::size_t known) noexcept;
error get_pool_stats(const driver_table &cu, CUmemoryPool pool, ferry_pool_stats &stats) noexcept;
error reset_pool_stats(const driver_table &cu, CUmemoryPool pool) noexcept;

} // namespace ferry
