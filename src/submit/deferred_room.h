// How allocations and deferred frees share memory.
#pragma once

#include "driver/result.h"
#include "submit/instance.h"

namespace ferry {

// Returns the maximum number of bytes that deferred frees keep on a device. The host uses the limit of device 0.
inline std::uint64_t deferred_limit(const ferry_instance &instance, int device) noexcept {
    constexpr std::uint64_t share = 16; // documented at ferry_options.deferred_bytes
    return instance.deferred_bytes ? instance.deferred_bytes : instance.devices[device].info.total_memory / share;
}

// Calls allocate(). If there is no memory, or if the memory is still registered, trim(freed) performs every deferred
// free whose stream has completed. If that freed anything, allocate() is called again.
template <class Allocate, class Trim> error allocate_or_trim(const Allocate &allocate, const Trim &trim) noexcept {
    const error failed = allocate();
    if (failed.status != to_status(CUDA_ERROR_OUT_OF_MEMORY) &&
        failed.status != to_status(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED))
        return failed;
    std::uint64_t freed = 0;
    static_cast<void>(trim(freed));
    return freed ? allocate() : failed;
}

} // namespace ferry
