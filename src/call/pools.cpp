#include "call/pools.h"

#include "route/pool_access.h"

namespace ferry {

failure check_location(const ferry_instance &instance, const pool_location &where) noexcept {
    const auto index = static_cast<std::uint64_t>(where.index);
    const auto refuse_index = [&](std::int32_t status) noexcept {
        return refuse_option(status, FERRY_FIELD_INDEX, 0, index);
    };
    switch (where.location) {
    case FERRY_LOCATION_DEVICE:
        if (check_device(instance, where.index))
            return refuse_option(FERRY_ERROR_DEVICE, FERRY_FIELD_INDEX,
                                 static_cast<std::uint64_t>(instance.limits.device_count), index);
        return {};
    case FERRY_LOCATION_HOST:
        return where.index == 0 ? failure{} : refuse_index(FERRY_ERROR_INVALID_ARGUMENT);
    case FERRY_LOCATION_HOST_NUMA:
        return where.index >= 0 ? failure{} : refuse_index(FERRY_ERROR_INVALID_ARGUMENT);
    default:
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_LOCATION, 0,
                             static_cast<std::uint64_t>(where.location));
    }
}

namespace {

// What the devices can do is known since they were found.
failure check_desc(const ferry_instance &instance, const ferry_pool_desc &desc) noexcept {
    if (failure failed = check_location(instance, {desc.location, desc.index})) return failed;
    const bool on_device = desc.location == FERRY_LOCATION_DEVICE;
    const ferry_device_info &info = instance.devices[on_device ? desc.index : 0].info;
    const std::int32_t can_be = on_device                              ? info.memory_pools
                                : desc.location == FERRY_LOCATION_HOST ? info.host_memory_pools
                                                                       : info.host_numa_memory_pools;
    if (!can_be) return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_LOCATION);
    constexpr std::uint32_t known =
        FERRY_HANDLE_POSIX_FD | FERRY_HANDLE_WIN32 | FERRY_HANDLE_WIN32_KMT | FERRY_HANDLE_FABRIC;
    const std::uint32_t possible = desc.location == FERRY_LOCATION_HOST ? 0 : info.pool_handle_types;
    if (desc.handle_types & ~known)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HANDLE_TYPES, known, desc.handle_types);
    if (desc.handle_types & ~possible)
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPES, possible, desc.handle_types);
    return {};
}

} // namespace

failure create_pool(ferry_instance &instance, const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept {
    if (failure failed = check_desc(instance, desc)) return failed;
    context_scope scope(instance.cu);
    if (failure failed = desc.location == FERRY_LOCATION_DEVICE ? enter_device(instance, desc.index, scope)
                                                                : enter_any(instance, nullptr, scope))
        return failed;
    const relaxed_capture_mode relaxed(instance.cu);
    if (!relaxed.entered()) return relaxed.why();
    if (failure failed = instance.pools.create(desc, pool)) return on_side(failed, FERRY_SIDE_OPTIONS);
    instance.sharing.forget_pool(pool);
    return {};
}

failure destroy_pool(ferry_instance &instance, CUmemoryPool pool) noexcept {
    if (failure failed = instance.pools.wait_until_unused(pool)) return failed;
    return instance.sharing.destroy_pool(pool);
}

failure describe_pool(ferry_instance &instance, CUmemoryPool pool, ferry_pool_info &info) noexcept {
    pool_location where;
    bool is_default = false;
    info.is_imported = instance.sharing.is_imported(pool, where);
    if (!info.is_imported) {
        if (failure failed = instance.pools.locate(pool, where)) return failed;
        if (failure failed = instance.pools.is_default(pool, where, is_default)) return failed;
        pool_record record;
        const bool is_made = instance.pools.find(pool, record) && record.is_made;
        if (is_made) {
            info.handle_types = record.handle_types;
            info.max_size = record.max_size;
        }
        info.can_share = is_made ? record.handle_types != 0 : !is_default && where.location != FERRY_LOCATION_HOST;
    }
    info.location = where.location;
    info.index = where.index;
    info.is_default = is_default;
    return {};
}

namespace {

// The driver's call waits for nothing: a copy in flight that uses the access takes its context with it.
failure take_access(ferry_instance &instance, CUmemoryPool pool, int device) noexcept {
    if (CUcontext used = nullptr; instance.contexts.is_in_use(device, used)) {
        context_scope scope(instance.cu);
        if (failure failed = scope.enter(used)) return failed;
        if (CUresult result = instance.cu.cuCtxSynchronize()) return to_failure(result);
    }
    return instance.pools.set_access(pool, device, FERRY_ACCESS_NONE);
}

} // namespace

failure set_pool_access(ferry_instance &instance, CUmemoryPool pool, int device, std::int32_t access) noexcept {
    pool_location where;
    const bool is_others = instance.sharing.is_imported(pool, where);
    if (!is_others)
        if (failure failed = instance.pools.locate(pool, where)) return failed;
    if (where.is_on_device(device)) // whose access is there and stays
        return access == FERRY_ACCESS_READ_WRITE ? failure{}
                                                 : failure{FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_DEVICE};
    if (access == FERRY_ACCESS_NONE) return take_access(instance, pool, device);
    context_scope scope(instance.cu);
    if (failure failed = enter_device(instance, device, scope)) return failed;
    return give_access(instance.cu, instance.pools, instance.peers, pool, where, is_others, device, instance.allocator,
                       instance.log);
}

} // namespace ferry
