// The C functions for pools of stream-ordered memory.
#include "api/pool_calls.h"
#include "base/sized.h"
#include "links/pool_access.h"

using namespace ferry;

namespace {

error check_location(const ferry_instance &instance, const pool_location &where) noexcept {
    const auto refuse_index = [&](std::int32_t status, numbers given, std::int64_t limit) noexcept {
        return refuse_signed(status, FERRY_SIDE_OPTIONS, FERRY_FIELD_INDEX, given, limit, where.index);
    };
    switch (where.location) {
    case FERRY_LOCATION_DEVICE:
        if (check_device(instance, where.index))
            return refuse_index(FERRY_ERROR_DEVICE, numbers::count, instance.limits.device_count);
        return {};
    case FERRY_LOCATION_HOST:
        return where.index == 0 ? ok : refuse_index(FERRY_ERROR_INVALID_ARGUMENT, numbers::equal, 0);
    case FERRY_LOCATION_HOST_NUMA:
        return where.index >= 0 ? ok : refuse_index(FERRY_ERROR_INVALID_ARGUMENT, numbers::at_least, 0);
    default:
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_LOCATION, numbers::up_to,
                             FERRY_LOCATION_HOST_NUMA, where.location);
    }
}

// Validates the description against the device properties queried by ferry_open.
error check_desc(const ferry_instance &instance, const ferry_pool_desc &desc) noexcept {
    if (error failed = check_location(instance, {desc.location, desc.index})) return failed;
    const bool on_device = desc.location == FERRY_LOCATION_DEVICE;
    const ferry_device_info &info = instance.devices[on_device ? desc.index : 0].info;
    const std::int32_t can_be = on_device                              ? info.memory_pools
                                : desc.location == FERRY_LOCATION_HOST ? info.host_memory_pools
                                                                       : info.host_numa_memory_pools;
    if (!can_be)
        return refuse_signed(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_OPTIONS, FERRY_FIELD_LOCATION, numbers::value, 0,
                             desc.location);
    constexpr std::uint32_t known =
        FERRY_HANDLE_POSIX_FD | FERRY_HANDLE_WIN32 | FERRY_HANDLE_WIN32_KMT | FERRY_HANDLE_FABRIC;
    const std::uint32_t possible = desc.location == FERRY_LOCATION_HOST ? 0 : info.pool_handle_types;
    if (desc.handle_types & ~known)
        return refuse_option(FERRY_ERROR_INVALID_ARGUMENT, FERRY_FIELD_HANDLE_TYPES, numbers::bits, known,
                             desc.handle_types);
    if (desc.handle_types & ~possible)
        return refuse_option(FERRY_ERROR_UNSUPPORTED, FERRY_FIELD_HANDLE_TYPES, numbers::bits, possible,
                             desc.handle_types);
    return {};
}

error create_pool(ferry_instance &instance, const ferry_pool_desc &desc, CUmemoryPool &pool) noexcept {
    if (error failed = check_desc(instance, desc)) return failed;
    context_scope scope(instance.cu);
    if (error failed = desc.location == FERRY_LOCATION_DEVICE ? enter_device(instance, desc.index, scope)
                                                              : enter_any(instance, nullptr, scope))
        return failed;
    const relaxed_capture_mode relaxed(instance.cu);
    if (!relaxed.entered()) return relaxed.why();
    if (error failed = instance.pools.create(desc, pool)) return on_side(failed, FERRY_SIDE_OPTIONS);
    instance.sharing.memory.forget_pool(pool);
    return {};
}

error destroy_pool(ferry_instance &instance, CUmemoryPool pool) noexcept {
    if (error failed = instance.pools.wait_until_unused(pool)) return failed;
    return instance.sharing.memory.destroy_pool(pool);
}

// Makes the default pool current instead of the pool, and drops the name under which the pool was exported. If the driver
// fails, the pool stays current. It ends after the memory that is then allocated from it.
void withdraw_pool(ferry_instance &instance, CUmemoryPool pool, const pool_location &where) noexcept {
    instance.sharing.memory.forget_pool(pool);
    context_scope scope(instance.cu);
    if (where.location == FERRY_LOCATION_UNKNOWN || enter_any(instance, nullptr, scope)) return;
    const relaxed_capture_mode relaxed(instance.cu);
    if (relaxed.entered()) instance.pools.replace_current(pool, where);
}

// If the memory of the pool is still allocated, returns FERRY_ERROR_IN_USE and the pool stays.
error end_pool(void *of, void *handle) noexcept {
    ferry_instance &instance = *static_cast<ferry_instance *>(of);
    auto *const pool = static_cast<CUmemoryPool>(handle);
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, nullptr, scope)) return failed;
    if (error failed = instance.pools.check_unused(pool)) return failed;
    return instance.sharing.memory.destroy_pool(pool);
}

error destroy_pool_deferred(ferry_instance &instance, CUmemoryPool pool, CUstream stream) noexcept {
    pool_location where;
    ferry_pool_stats stats = {};
    if (error failed = administer_own(instance, pool, [&]() noexcept -> error {
            if (error refused = get_pool_stats(instance.cu, pool, stats)) return refused;
            instance.pools.find_location(pool, where);
            return instance.pools.mark_ended(pool);
        }))
        return failed;
    const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
    const error failed = instance.deferred.defer({&instance, pool, end_pool}, stats.reserved_current, device, stream);
    if (failed)
        instance.pools.unmark_ended(pool);
    else
        withdraw_pool(instance, pool, where);
    return about(noted(instance, failed), FERRY_FIELD_POOL, number(pool));
}

error describe_pool(ferry_instance &instance, CUmemoryPool pool, ferry_pool_info &info) noexcept {
    pool_location where;
    bool is_default = false;
    info.is_imported = instance.sharing.memory.is_imported(pool, where);
    if (!info.is_imported) {
        if (instance.pools.find_location(pool, where))
            if (error failed = instance.pools.is_default(pool, where, is_default)) return failed;
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

// Synchronises first, because the driver's call does not wait. If a copy in flight loses the access that it uses, its
// context dies.
error take_access(ferry_instance &instance, CUmemoryPool pool, int device) noexcept {
    if (CUcontext used = nullptr; instance.contexts.is_in_use(device, used)) {
        context_scope scope(instance.cu);
        if (error failed = scope.enter(used)) return failed;
        if (error failed = instance.contexts.synchronise_current()) return failed;
    }
    const std::lock_guard lock(instance.pools.access_mutex);
    return instance.pools.set_access(pool, device, FERRY_ACCESS_NONE);
}

error set_pool_access(ferry_instance &instance, CUmemoryPool pool, int device, std::int32_t access) noexcept {
    pool_location where;
    const bool is_others = instance.sharing.memory.is_imported(pool, where);
    if (!is_others)
        if (error failed = instance.pools.locate(pool, where)) return failed;
    if (where.is_on_device(device)) // the pool's own device always has access
        return access == FERRY_ACCESS_READ_WRITE
                   ? ok
                   : refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_NONE, FERRY_FIELD_ACCESS, numbers::equal,
                                   FERRY_ACCESS_READ_WRITE, access);
    if (access == FERRY_ACCESS_NONE) return take_access(instance, pool, device);
    context_scope scope(instance.cu);
    if (error failed = enter_device(instance, device, scope)) return failed;
    const std::lock_guard lock(instance.pools.access_mutex);
    return give_access(instance.cu, instance.pools, instance.peers, pool, where, is_others, device, instance.allocator,
                       instance.log);
}

} // namespace

extern "C" {

int32_t ferry_pool_create(ferry_instance *instance, const ferry_pool_desc *desc, CUmemPoolHandle_st **pool,
                          ferry_error_info *details) {
    if (pool) *pool = nullptr;
    if (!instance || !desc || !pool) return report_null(details, instance, desc, pool);
    ferry_pool_desc wanted = {};
    if (error failed = read_sized(desc, wanted)) return report(details, on_side(failed, FERRY_SIDE_OPTIONS));
    return report(details, create_pool(*instance, wanted, *pool));
}

int32_t ferry_pool_destroy(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!pool) return report(details, ok);
    return report(details, administer_own(*instance, pool, [&]() noexcept { return destroy_pool(*instance, pool); }));
}

int32_t ferry_pool_destroy_deferred(ferry_instance *instance, CUmemPoolHandle_st *pool, CUstream_st *stream,
                                    ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details, pool ? destroy_pool_deferred(*instance, pool, stream) : ok);
}

int32_t ferry_pool_get_default(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st **pool,
                               ferry_error_info *details) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return report_null(details, instance, pool);
    const pool_location where = {location, index};
    if (error failed = check_location(*instance, where)) return report(details, failed);
    return report(details, instance->pools.get_default(where, *pool));
}

int32_t ferry_pool_get_current(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st **pool,
                               ferry_error_info *details) {
    if (pool) *pool = nullptr;
    if (!instance || !pool) return report_null(details, instance, pool);
    const pool_location where = {location, index};
    if (error failed = check_location(*instance, where)) return report(details, failed);
    return report(details, instance->pools.get_current(where, *pool));
}

int32_t ferry_pool_set_current(ferry_instance *instance, int32_t location, int32_t index, CUmemPoolHandle_st *pool,
                               ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    const pool_location where = {location, index};
    if (error failed = check_location(*instance, where)) return report(details, failed);
    return report(details, administer_own(*instance, pool, [&]() noexcept -> error {
                      return instance->pools.set_current(where, pool);
                  }));
}

int32_t ferry_pool_get_info(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_pool_info *info,
                            ferry_error_info *details) {
    if (!instance || !info) return report_null(details, instance, info);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, administer(*instance, pool, [&]() noexcept -> error {
                      ferry_pool_info found = {};
                      if (error failed = describe_pool(*instance, pool, found))
                          return about(failed, FERRY_FIELD_POOL, number(pool));
                      return write_sized(found, info);
                  }));
}

int32_t ferry_pool_get_attributes(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_pool_attributes *attributes,
                                  ferry_error_info *details) {
    if (!instance || !attributes) return report_null(details, instance, attributes);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, administer_own(*instance, pool, [&]() noexcept -> error {
                      ferry_pool_attributes found = {};
                      if (error failed = get_pool_attributes(instance->cu, pool, found)) return failed;
                      return write_sized(found, attributes);
                  }));
}

int32_t ferry_pool_set_attributes(ferry_instance *instance, CUmemPoolHandle_st *pool,
                                  const ferry_pool_attributes *attributes, ferry_error_info *details) {
    if (!instance || !attributes) return report_null(details, instance, attributes);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    ferry_pool_attributes wanted = {};
    if (error failed = read_sized(attributes, wanted)) return report(details, failed);
    return report(details, administer_own(*instance, pool, [&]() noexcept -> error {
                      return set_pool_attributes(instance->cu, pool, wanted, attributes->struct_size);
                  }));
}

int32_t ferry_pool_get_stats(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_pool_stats *stats,
                             ferry_error_info *details) {
    if (!instance || !stats) return report_null(details, instance, stats);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, administer_own(*instance, pool, [&]() noexcept -> error {
                      ferry_pool_stats found = {};
                      if (error failed = get_pool_stats(instance->cu, pool, found)) return failed;
                      return write_sized(found, stats);
                  }));
}

int32_t ferry_pool_reset_stats(ferry_instance *instance, CUmemPoolHandle_st *pool, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, administer_own(*instance, pool,
                                          [&]() noexcept -> error { return reset_pool_stats(instance->cu, pool); }));
}

int32_t ferry_pool_trim(ferry_instance *instance, CUmemPoolHandle_st *pool, uint64_t keep, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, administer_own(*instance, pool, [&]() noexcept -> error {
                      return {.status = call_optional(instance->cu.cuMemPoolTrimTo, pool, keep)};
                  }));
}

int32_t ferry_pool_set_access(ferry_instance *instance, CUmemPoolHandle_st *pool, int32_t device, int32_t access,
                              ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (access != FERRY_ACCESS_NONE && access != FERRY_ACCESS_READ_WRITE)
        return report(details, refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_ACCESS,
                                             numbers::value, 0, access));
    if (error failed = check_device(*instance, device)) return report(details, failed);
    return report(details, administer(*instance, pool, [&]() noexcept -> error {
                      return about(set_pool_access(*instance, pool, device, access), FERRY_FIELD_POOL, number(pool));
                  }));
}

int32_t ferry_pool_get_access(ferry_instance *instance, CUmemPoolHandle_st *pool, int32_t device, int32_t *access,
                              ferry_error_info *details) {
    if (access) *access = FERRY_ACCESS_NONE;
    if (!instance || !access) return report_null(details, instance, access);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    if (error failed = check_device(*instance, device)) return report(details, failed);
    return report(details, administer(*instance, pool, [&]() noexcept -> error {
                      return about(instance->pools.get_access(pool, device, *access), FERRY_FIELD_POOL, number(pool));
                  }));
}

} // extern "C"
