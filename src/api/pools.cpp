// The C functions for stream-ordered memory and its pools.
#include "base/sized.h"
#include "device/capture_mode.h"
#include "driver/result.h"
#include "links/pool_access.h"
#include "memory/address.h"
#include "submit/instance.h"
#include "submit/note_error.h"

using namespace ferry;

namespace {

// On a device without pools, the driver returns CUDA_ERROR_NOT_SUPPORTED; callers get FERRY_ERROR_UNSUPPORTED.
constexpr status_code pool_status(status_code status) noexcept {
    return status == to_status(CUDA_ERROR_NOT_SUPPORTED) ? status_code(FERRY_ERROR_UNSUPPORTED, status.call) : status;
}

error ended(CUmemoryPool pool) noexcept {
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

// On a stream other than the default streams, the successful path is a single driver call, because these calls take
// only half a microsecond. The cause of a failure is determined afterwards.

constexpr std::int32_t refused = to_status(CUDA_ERROR_INVALID_VALUE);

[[gnu::noinline]] error allocate(ferry_instance &instance, std::int32_t device, std::uint64_t size, CUstream stream,
                                 CUdeviceptr &address) noexcept {
    const driver_table &cu = instance.cu;
    if (error failed = check_device(instance, device)) return failed;
    if (belongs_to_current_context(stream)) {
        context_choice choice;
        if (error failed = choose_context_on(cu, instance.contexts, stream, device, choice)) return failed;
        context_scope scope(cu);
        if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
        return {.status = call_optional(cu.cuMemAllocAsync, &address, size, stream)};
    }
    CUcontext context = nullptr;
    int device_of_stream = 0;
    if (call_result result = cu.cuStreamGetCtx(stream, &context)) return to_error(result);
    if (!instance.contexts.find(context, device_of_stream))
        if (error failed = instance.contexts.device_of(context, device_of_stream)) return failed;
    if (device == device_of_stream) return {.status = call_optional(cu.cuMemAllocAsync, &address, size, stream)};
    CUmemoryPool pool = nullptr;
    if (error failed = instance.pools.get_current({FERRY_LOCATION_DEVICE, device}, pool)) return failed;
    return {.status = call_optional(cu.cuMemAllocFromPoolAsync, &address, size, pool, stream)};
}

// `device` is the pool's device, or -1 for a pool in host memory.
error allocate_from(ferry_instance &instance, CUmemoryPool pool, int device, std::uint64_t size, CUstream stream,
                    CUdeviceptr &address) noexcept {
    context_choice choice;
    if (error failed = choose_context_on(instance.cu, instance.contexts, stream, device, choice)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    return {.status = call_optional(instance.cu.cuMemAllocFromPoolAsync, &address, size, pool, stream)};
}

[[gnu::noinline]] error free_on_default_stream(ferry_instance &instance, std::uint64_t address,
                                               CUstream stream) noexcept {
    address_facts facts;
    if (error failed = look_up_address(instance.cu, address, address_query::kind_only, facts)) return failed;
    context_choice choice;
    if (error failed = choose_context_on(instance.cu, instance.contexts, stream, facts.device, choice)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    return {.status = call_optional(instance.cu.cuMemFreeAsync, address, stream)};
}

[[gnu::cold, gnu::noinline]] status_code why_not_freed(ferry_instance &instance, std::uint64_t address,
                                                       status_code status) noexcept {
    if (status != refused) return pool_status(noted(instance, status));
    address_facts facts;
    if (look_up_address(instance.cu, address, address_query::everything, facts)) return status;
    const bool is_there = facts.kind != memory_kind::pageable && facts.range_start == address;
    const bool is_kind = facts.kind == memory_kind::device || facts.pool;
    return is_there && is_kind ? status : status_code(FERRY_ERROR_ADDRESS, status.call);
}

// Records the failure and translates the status of a device without pools.
[[gnu::cold, gnu::noinline]] error pool_error(ferry_instance &instance, error failed) noexcept {
    failed.status = pool_status(noted(instance, failed.status));
    return failed;
}

error allocate_on_stream(ferry_instance &instance, std::int32_t device, std::uint64_t size, CUstream stream,
                         std::uint64_t &address) noexcept {
    CUdeviceptr allocated = 0;
    const bool is_streams_own = device == FERRY_DEVICE_UNKNOWN || (device == 0 && instance.limits.device_count == 1);
    const error failed = is_streams_own && !belongs_to_current_context(stream)
                             ? error{.status = call_optional(instance.cu.cuMemAllocAsync, &allocated, size, stream)}
                             : allocate(instance, device, size, stream, allocated);
    if (failed) return pool_error(instance, failed);
    address = allocated;
    return {};
}

error allocate_from_pool(ferry_instance &instance, CUmemoryPool pool, std::uint64_t size, CUstream stream,
                         std::uint64_t &address) noexcept {
    if (instance.pools.is_ended(pool)) return ended(pool);
    CUdeviceptr allocated = 0;
    pool_location where;
    error failed;
    if (!belongs_to_current_context(stream)) {
        failed.status = call_optional(instance.cu.cuMemAllocFromPoolAsync, &allocated, size, pool, stream);
    } else {
        failed = administer_own(instance, pool, [&]() noexcept -> error { return instance.pools.locate(pool, where); });
        const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
        if (!failed) failed = allocate_from(instance, pool, device, size, stream, allocated);
    }
    if (failed)
        return instance.sharing.memory.is_imported(pool, where)
                   ? about({.status = FERRY_ERROR_IMPORTED}, FERRY_FIELD_POOL, number(pool))
                   : pool_error(instance, failed);
    address = allocated;
    return {};
}

error free_on_stream(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept {
    if (instance.fork_mark.is_in_child()) return in_child;
    if (instance.externals.is_part(address)) return {.status = FERRY_ERROR_IMPORTED};
    if (instance.sharing.memory.is_imported(address))
        return {.status = FERRY_ERROR_IMPORTED}; // the driver would close the import
    const status_code status = belongs_to_current_context(stream)
                                   ? free_on_default_stream(instance, address, stream).status
                                   : call_optional(instance.cu.cuMemFreeAsync, address, stream);
    return {.status = status ? why_not_freed(instance, address, status) : status};
}

} // namespace

extern "C" {

int32_t ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size, CUstream_st *stream,
                                 uint64_t *address, ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    return report(details,
                  about(allocate_on_stream(*instance, device, size, stream, *address), FERRY_FIELD_SIZE, size));
}

int32_t ferry_device_free_async(ferry_instance *instance, uint64_t address, CUstream_st *stream,
                                ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details,
                  address ? about(free_on_stream(*instance, address, stream), FERRY_FIELD_ADDRESS, address) : ok);
}

int32_t ferry_pool_alloc_async(ferry_instance *instance, CUmemPoolHandle_st *pool, uint64_t size, CUstream_st *stream,
                               uint64_t *address, ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    return report(details, about(allocate_from_pool(*instance, pool, size, stream, *address), FERRY_FIELD_SIZE, size));
}

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
