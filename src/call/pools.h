// Pools of stream-ordered memory: made, told about and administered.
#pragma once

#include "call/staging.h"
#include "device/capture_mode.h"

namespace ferry {

// A device without pools is told of by status too.
constexpr std::int32_t pool_status(std::int32_t status) noexcept {
    return status == to_status(CUDA_ERROR_NOT_SUPPORTED) ? FERRY_ERROR_UNSUPPORTED : status;
}

// Where a context is current, and where what is asked breaks no capture: most of this would (docs/driver.md).
template <class Body> std::int32_t administer(ferry_instance &instance, Body body) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_any(instance, nullptr, scope)) return failed.status;
    const relaxed_capture_mode relaxed(instance.cu);
    return relaxed.entered() ? pool_status(noted(instance, body().status)) : relaxed.why().status;
}

// The same for what an imported pool cannot do.
template <class Body> std::int32_t administer_own(ferry_instance &instance, CUmemoryPool pool, Body body) noexcept {
    return administer(instance, [&]() noexcept -> failure {
        pool_location where;
        return instance.sharing.is_imported(pool, where) ? failure{.status = FERRY_ERROR_IMPORTED} : body();
    });
}

// That there may be pools there.
failure check_location(const ferry_instance &instance, const pool_location &where) noexcept;

failure create_pool(ferry_instance &instance, const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept;

// Of a pool that is being administered.
failure destroy_pool(ferry_instance &instance, CUmemoryPool pool) noexcept;
failure describe_pool(ferry_instance &instance, CUmemoryPool pool, ferry_pool_info &info) noexcept;
failure set_pool_access(ferry_instance &instance, CUmemoryPool pool, int device, std::int32_t access) noexcept;

} // namespace ferry
