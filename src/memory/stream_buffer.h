// Device memory in the order of a stream, for the intermediate bytes of one call.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>

#include "base/budget.h"
#include "base/function_ref.h"
#include "device/contexts.h"

namespace ferry {

// The pools of the buffers, one for each device, created on first use. A device's default pool returns its memory to the
// system whenever its streams are synchronised, and the next allocation then takes longer than many copies.
class buffer_pools {
public:
    // A pool keeps memory for one buffer of the maximum size.
    static constexpr std::uint64_t max_kept = std::uint64_t{64} << 20;

    buffer_pools(const driver_table &cu, const device_facts *devices) noexcept : cu_(cu), devices_(devices) {}
    buffer_pools(const buffer_pools &) = delete;
    buffer_pools &operator=(const buffer_pools &) = delete;

    // Must be called before any other function, if no memory may be kept between calls. Then there are no pools, and
    // buffers are allocated from the devices' current pools.
    void keep_nothing() noexcept { keeps_ = false; }
    bool keeps() const noexcept { return keeps_; }
    bool are_supported() const noexcept {
        return cu_.cuMemPoolCreate && cu_.cuMemPoolDestroy && cu_.cuMemPoolSetAttribute &&
               cu_.cuMemAllocFromPoolAsync && cu_.cuMemAllocAsync && cu_.cuMemFreeAsync;
    }
    // The calling thread must be in the relaxed capture mode.
    error get(int device, CUmemoryPool &pool) noexcept;
    // Stores the size of a device's pool. The calling thread must be in the relaxed capture mode.
    void count(int device, CUmemoryPool pool) noexcept;
    // The bytes of all pools, in use or kept, as of the last count. Makes no driver call.
    std::uint64_t reserved() const noexcept;
    // Returns memory to the system that the driver knows to be free: a thread has waited for the stream of the free.
    error trim() noexcept;
    // Destroys the pools for which `wait(pool)` returns true: all of their memory is back at the system. The others stay,
    // because the driver does not bear that such a pool is destroyed (docs/driver.md). No call may follow.
    void close(function_ref<bool(CUmemoryPool)> wait) noexcept;

private:
    void for_each(function_ref<void(int, CUmemoryPool)> use) const noexcept;

    const driver_table &cu_;
    const device_facts *devices_;
    bool keeps_ = true;
    std::mutex mutex_; // locked while a pool is created
    std::atomic<CUmemoryPool> pools_[device_contexts::max_devices] = {};
    std::atomic<std::uint64_t> reserved_[device_contexts::max_devices] = {};
};

// The stream must not be captured. Without pools, the memory counts for the budget of its device until it is freed,
// although the stream uses it for longer.
class stream_buffer {
public:
    // Copies of more bytes pass through a buffer of this size in parts.
    static constexpr std::uint64_t max_bytes = buffer_pools::max_kept;

    stream_buffer(const driver_table &cu, buffer_pools &pools, budget &of_device, CUstream stream) noexcept
        : cu_(cu), pools_(pools), budget_(of_device), stream_(stream) {}
    ~stream_buffer() { static_cast<void>(free()); }
    stream_buffer(const stream_buffer &) = delete;
    stream_buffer &operator=(const stream_buffer &) = delete;

    // Afterwards, the address is 0 if there is no memory, or the budget does not permit it. Buffers must be supported.
    error allocate(int device, std::uint64_t bytes) noexcept;
    error free() noexcept;
    CUdeviceptr address() const noexcept { return address_; }

private:
    error allocate_on_stream(int device, std::uint64_t bytes) noexcept;

    const driver_table &cu_;
    buffer_pools &pools_;
    budget &budget_;
    const CUstream stream_;
    std::uint64_t counted_ = 0; // by the budget
    CUdeviceptr address_ = 0;
};

} // namespace ferry
