// What all calls for pools do: they need a context, must not break a capture, and reject pools that have ended.
#pragma once

#include "device/capture_mode.h"
#include "submit/instance.h"
#include "submit/note_error.h"

namespace ferry {

// On a device without pools, the driver returns CUDA_ERROR_NOT_SUPPORTED; callers get FERRY_ERROR_UNSUPPORTED.
constexpr status_code pool_status(status_code status) noexcept {
    return status == to_status(CUDA_ERROR_NOT_SUPPORTED) ? status_code(FERRY_ERROR_UNSUPPORTED, status.call) : status;
}

[[gnu::cold]] inline error ended(CUmemoryPool pool) noexcept {
    return about({.status = FERRY_ERROR_INVALID_ARGUMENT}, FERRY_FIELD_POOL, number(pool));
}

// Runs `body` with a current context and in relaxed capture mode. In other modes, most pool calls can break a capture
// (docs/driver.md). Rejects a pool that a deferred call has ended.
template <class Body> error administer(ferry_instance &instance, CUmemoryPool pool, Body body) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    if (instance.pools.is_ended(pool) || instance.sharing.memory.is_closed(pool)) return ended(pool);
    const relaxed_capture_mode relaxed(instance.cu);
    if (!relaxed.entered()) return relaxed.why();
    error failed = noted(instance, body());
    failed.status = pool_status(failed.status);
    return failed;
}

// Same as administer(), but rejects imported pools.
template <class Body> error administer_own(ferry_instance &instance, CUmemoryPool pool, Body body) noexcept {
    return administer(instance, pool, [&]() noexcept -> error {
        pool_location where;
        const error failed =
            instance.sharing.memory.is_imported(pool, where) ? error{.status = FERRY_ERROR_IMPORTED} : body();
        return about(failed, FERRY_FIELD_POOL, number(pool));
    });
}

} // namespace ferry
