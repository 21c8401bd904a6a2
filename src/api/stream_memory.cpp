// The C functions that allocate and free stream-ordered memory.
#include "api/pool_calls.h"
#include "memory/address.h"

using namespace ferry;

namespace {

// On a stream other than the default streams, the successful path is a single driver call, because these calls take
// only half a microsecond. The cause of a failure is determined afterwards.

constexpr std::int32_t refused = to_status(CUDA_ERROR_INVALID_VALUE);

[[gnu::cold, gnu::noinline]] error allocate(ferry_instance &instance, std::int32_t device, std::uint64_t size,
                                            CUstream stream, CUdeviceptr &address) noexcept {
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

[[gnu::cold, gnu::noinline]] error free_on_default_stream(ferry_instance &instance, std::uint64_t address,
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

[[gnu::cold, gnu::noinline]] error allocate_on_default_stream(ferry_instance &instance, CUmemoryPool pool,
                                                              std::uint64_t size, CUstream stream,
                                                              CUdeviceptr &address) noexcept {
    pool_location where;
    if (error failed =
            administer_own(instance, pool, [&]() noexcept -> error { return instance.pools.locate(pool, where); }))
        return failed;
    const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
    return allocate_from(instance, pool, device, size, stream, address);
}

[[gnu::cold, gnu::noinline]] error why_not_allocated(ferry_instance &instance, CUmemoryPool pool,
                                                     error failed) noexcept {
    pool_location where;
    return instance.sharing.memory.is_imported(pool, where)
               ? about({.status = FERRY_ERROR_IMPORTED}, FERRY_FIELD_POOL, number(pool))
               : pool_error(instance, failed);
}

error allocate_from_pool(ferry_instance &instance, CUmemoryPool pool, std::uint64_t size, CUstream stream,
                         std::uint64_t &address) noexcept {
    if (instance.pools.is_ended(pool)) return ended(pool);
    CUdeviceptr allocated = 0;
    const error failed =
        belongs_to_current_context(stream)
            ? allocate_on_default_stream(instance, pool, size, stream, allocated)
            : error{.status = call_optional(instance.cu.cuMemAllocFromPoolAsync, &allocated, size, pool, stream)};
    if (failed) return why_not_allocated(instance, pool, failed);
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

[[gnu::hot]] int32_t ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size,
                                              CUstream_st *stream, uint64_t *address, ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    const error failed = allocate_on_stream(*instance, device, size, stream, *address);
    return report(details, failed ? about(failed, FERRY_FIELD_SIZE, size) : ok);
}

[[gnu::hot]] int32_t ferry_device_free_async(ferry_instance *instance, uint64_t address, CUstream_st *stream,
                                             ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    const error failed = address ? free_on_stream(*instance, address, stream) : ok;
    return report(details, failed ? about(failed, FERRY_FIELD_ADDRESS, address) : ok);
}

[[gnu::hot]] int32_t ferry_pool_alloc_async(ferry_instance *instance, CUmemPoolHandle_st *pool, uint64_t size,
                                            CUstream_st *stream, uint64_t *address, ferry_error_info *details) {
    if (address) *address = 0;
    if (!instance || !address) return report_null(details, instance, address);
    if (!pool) return report_null_field(details, FERRY_FIELD_POOL);
    const error failed = allocate_from_pool(*instance, pool, size, stream, *address);
    return report(details, failed ? about(failed, FERRY_FIELD_SIZE, size) : ok);
}

} // extern "C"
