#include "memory/stream_buffer.h"

#include "device/capture_mode.h"

namespace ferry {

error buffer_pools::get(int device, CUmemoryPool &pool) noexcept {
    std::atomic<CUmemoryPool> &known = pools_[device];
    pool = known.load(std::memory_order_acquire);
    if (pool) return {};
    const std::lock_guard lock(mutex_);
    pool = known.load(std::memory_order_relaxed);
    if (pool) return {};
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, devices_[device].handle};
    CUmemoryPool made = nullptr;
    if (call_result result = cu_.cuMemPoolCreate(&made, &props)) return to_error(result);
    cuuint64_t kept = max_kept;
    if (call_result result = cu_.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept)) {
        cu_.cuMemPoolDestroy(made);
        return to_error(result);
    }
    pool = made;
    known.store(made, std::memory_order_release);
    return {};
}

void buffer_pools::count(int device, CUmemoryPool pool) noexcept {
    cuuint64_t bytes = 0;
    if (call_optional(cu_.cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes) == FERRY_SUCCESS)
        reserved_[device].store(bytes, std::memory_order_relaxed);
}

void buffer_pools::for_each(function_ref<void(int, CUmemoryPool)> use) const noexcept {
    for (int device = 0; device < device_contexts::max_devices; ++device)
        if (const CUmemoryPool pool = pools_[device].load(std::memory_order_acquire)) use(device, pool);
}

std::uint64_t buffer_pools::reserved() const noexcept {
    std::uint64_t bytes = 0;
    for (const std::atomic<std::uint64_t> &of_device : reserved_)
        bytes += of_device.load(std::memory_order_relaxed);
    return bytes;
}

error buffer_pools::trim() noexcept {
    error failed;
    for_each([&](int device, CUmemoryPool pool) noexcept {
        const relaxed_capture_mode relaxed(cu_);
        const error of_pool = !relaxed.entered()    ? relaxed.why()
                              : cu_.cuMemPoolTrimTo ? to_error(cu_.cuMemPoolTrimTo(pool, 0))
                                                    : ok;
        if (relaxed.entered()) count(device, pool);
        if (!failed) failed = of_pool;
    });
    return failed;
}

void buffer_pools::close(function_ref<bool(CUmemoryPool)> wait) noexcept {
    for_each([&](int, CUmemoryPool pool) noexcept {
        const relaxed_capture_mode relaxed(cu_);
        if (wait(pool)) static_cast<void>(cu_.cuMemPoolDestroy(pool));
    });
}

error stream_buffer::allocate_on_stream(int device, std::uint64_t bytes) noexcept {
    const relaxed_capture_mode relaxed(cu_); // another thread may capture
    if (!relaxed.entered()) return relaxed.why();
    if (!pools_.keeps()) return to_error(cu_.cuMemAllocAsync(&address_, bytes, stream_));
    CUmemoryPool pool = nullptr;
    if (error failed = pools_.get(device, pool)) return failed;
    if (call_result result = cu_.cuMemAllocFromPoolAsync(&address_, bytes, pool, stream_)) return to_error(result);
    pools_.count(device, pool);
    return {};
}

error stream_buffer::allocate(int device, std::uint64_t bytes) noexcept {
    const std::uint64_t counted = pools_.keeps() ? 0 : bytes;
    if (!budget_.take(counted)) return {};
    counted_ = counted;
    const error failed = allocate_on_stream(device, bytes);
    if (!failed) return {};
    address_ = 0;
    static_cast<void>(free());
    const bool is_refused =
        failed.status == to_status(CUDA_ERROR_OUT_OF_MEMORY) || failed.status == to_status(CUDA_ERROR_NOT_SUPPORTED);
    return is_refused ? ok : failed;
}

error stream_buffer::free() noexcept {
    budget_.give_back(std::exchange(counted_, 0));
    const CUdeviceptr freed = std::exchange(address_, 0);
    if (!freed) return {};
    const relaxed_capture_mode relaxed(cu_);
    return to_error(cu_.cuMemFreeAsync(freed, stream_));
}

} // namespace ferry
