// Pools of stream-ordered memory: made, found out about and administered. The driver does not tell of a pool where it
// lies nor how it was made, so what ferry makes is recorded. All calls need a current context, and a capture mode that
// lets them be beside a capture: see device/capture_mode.h.
#pragma once

#include <mutex>

#include "base/growing.h"
#include "device/contexts.h"

namespace ferry {

// Where a pool's memory lies, as in ferry_pool_desc.
struct pool_location {
    std::int32_t location = FERRY_LOCATION_DEVICE; // FERRY_LOCATION_*
    std::int32_t index = 0;

    bool is_on_device(int device) const noexcept { return location == FERRY_LOCATION_DEVICE && index == device; }
};

struct pool_record {
    CUmemoryPool pool = nullptr;
    pool_location where; // this and the next two: of pools that ferry made
    std::uint32_t handle_types = 0;
    std::uint64_t max_size = 0;
    bool is_made = false;            // by ferry_pool_create; not so pools of which ferry knows only the next
    std::uint64_t proven_access = 0; // bit per device to and from which data has come through
};

class memory_pools {
public:
    memory_pools(const driver_table &cu, const device_facts *devices, device_contexts &contexts,
                 const allocator &memory) noexcept
        : cu_(cu), devices_(devices), contexts_(contexts), records_(memory) {}

    // The description is a legal one.
    failure create(const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept;
    // Whether it may be destroyed: CUDA 13.0 takes the process down some time after a pool was destroyed of which memory
    // was still allocated, or its free not yet passed by the stream (H200). Waits for the latter; gives back what is free.
    failure wait_until_unused(CUmemoryPool pool) noexcept;
    // An unused pool. A default one is refused.
    failure destroy(CUmemoryPool pool) noexcept;

    // What is recorded of a pool; false where that is nothing.
    bool find(CUmemoryPool pool, pool_record &found) noexcept;
    // Where any pool of this process lies: as recorded, else as the driver can be made to tell.
    failure locate(CUmemoryPool pool, pool_location &where) noexcept;
    failure is_default(CUmemoryPool pool, const pool_location &where, bool &is) const noexcept;

    // The pools of a location that there is.
    failure get_default(const pool_location &of, CUmemoryPool &pool) const noexcept;
    failure get_current(const pool_location &of, CUmemoryPool &pool) const noexcept;
    failure set_current(const pool_location &of, CUmemoryPool pool) const noexcept;

    failure get_access(CUmemoryPool pool, int device, std::int32_t &access) const noexcept;
    failure set_access(CUmemoryPool pool, int device, std::int32_t access) const noexcept;
    // That data has come through, between the pool and the device.
    failure note_proven_access(CUmemoryPool pool, int device) noexcept;
    bool access_is_proven(CUmemoryPool pool, int device) noexcept;

private:
    pool_record *find(CUmemoryPool pool) noexcept; // mutex_ is held
    bool is_of(CUmemoryPool pool, const pool_location &where) const noexcept;
    bool is_any_default(CUmemoryPool pool) const noexcept;
    failure synchronise_all() noexcept;
    failure ask_a_byte(CUmemoryPool pool, pool_location &where) noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    device_contexts &contexts_;
    std::mutex mutex_; // of the records; never held during a driver's call
    growing<pool_record> records_;
};

// Of pools of this process; the driver refuses imported ones.
failure get_pool_attributes(const driver_table &cu, CUmemoryPool pool, ferry_pool_attributes &attributes) noexcept;
// Those of the first `known` bytes.
failure set_pool_attributes(const driver_table &cu, CUmemoryPool pool, const ferry_pool_attributes &attributes,
                            std::size_t known) noexcept;
failure get_pool_stats(const driver_table &cu, CUmemoryPool pool, ferry_pool_stats &stats) noexcept;
failure reset_pool_stats(const driver_table &cu, CUmemoryPool pool) noexcept;

} // namespace ferry
