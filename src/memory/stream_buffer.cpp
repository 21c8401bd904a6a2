#include "memory/stream_buffer.h"

#include "device/capture_mode.h"

namespace ferry {

namespace {

bool means_no_memory(const status_code &status) noexcept {
    return status == to_status(CUDA_ERROR_OUT_OF_MEMORY) || status == to_status(CUDA_ERROR_NOT_SUPPORTED);
}

} // namespace

buffer_pools::~buffer_pools() {
    // At process exit, the driver may already be unloaded. Then nothing needs to be released.
    for (const std::atomic<CUmemoryPool> &one : pools_)
        if (const CUmemoryPool pool = one) static_cast<void>(cu_.cuMemPoolDestroy(pool));
}

error buffer_pools::get(int device, CUmemoryPool &pool) noexcept {
    std::atomic<CUmemoryPool> &known = pools_[device];
    pool = known.load(std::memory_order_acquire);
    if (pool) return {};
    const relaxed_capture_mode relaxed(cu_); // another thread may capture
    if (!relaxed.entered()) return relaxed.why();
    const std::lock_guard lock(mutex_);
    pool = known.load(std::memory_order_relaxed);
    if (pool) return {};
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, devices_[device].handle};
    CUmemoryPool made = nullptr;
    if (call_result result = cu_.cuMemPoolCreate(&made, &props)) return to_error(result);
    cuuint64_t kept = kept_;
    if (call_result result = cu_.cuMemPoolSetAttribute(made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept)) {
        cu_.cuMemPoolDestroy(made);
        return to_error(result);
    }
    pool = made;
    known.store(made, std::memory_order_release);
    return {};
}

std::uint64_t buffer_pools::reserved() const noexcept {
    std::uint64_t bytes = 0;
    for (const std::atomic<CUmemoryPool> &one : pools_) {
        const CUmemoryPool pool = one;
        cuuint64_t of_pool = 0;
        if (pool && call_optional(cu_.cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &of_pool) ==
                        FERRY_SUCCESS)
            bytes += of_pool;
    }
    return bytes;
}

error buffer_pools::trim() noexcept {
    error failed;
    for (const std::atomic<CUmemoryPool> &one : pools_) {
        const CUmemoryPool pool = one;
        if (!pool || !cu_.cuMemPoolTrimTo) continue;
        const call_result result = cu_.cuMemPoolTrimTo(pool, 0);
        if (result && !failed) failed = to_error(result);
    }
    return failed;
}

error stream_buffer::allocate(int device, std::uint64_t bytes) noexcept {
    if (!budget_.take(bytes)) return {};
    bytes_ = bytes;
    CUmemoryPool pool = nullptr;
    error failed = pools_.get(device, pool);
    if (!failed) failed = to_error(cu_.cuMemAllocFromPoolAsync(&address_, bytes, pool, stream_));
    if (!failed) return {};
    address_ = 0;
    static_cast<void>(free());
    return means_no_memory(failed.status) ? ok : failed;
}

error stream_buffer::free() noexcept {
    const CUdeviceptr freed = std::exchange(address_, 0);
    budget_.give_back(std::exchange(bytes_, 0));
    return freed ? to_error(cu_.cuMemFreeAsync(freed, stream_)) : ok;
}

} // namespace ferry
