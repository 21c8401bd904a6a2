#include "call/pool_memory.h"

#include "call/pools.h"
#include "driver/result.h"
#include "memory/address.h"

namespace ferry {

namespace {

constexpr std::int32_t refused = to_status(CUDA_ERROR_INVALID_VALUE);

[[gnu::noinline]] failure allocate(ferry_instance &instance, std::int32_t device, std::uint64_t size, CUstream stream,
                                   CUdeviceptr &address) noexcept {
    const driver_table &cu = instance.cu;
    if (failure failed = check_device(instance, device)) return failed;
    if (belongs_to_current_context(stream)) {
        context_choice choice;
        if (failure failed = choose_context_on(cu, instance.contexts, stream, device, choice)) return failed;
        context_scope scope(cu);
        if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
        return {.status = call_optional(cu.cuMemAllocAsync, &address, size, stream)};
    }
    CUcontext context = nullptr;
    int device_of_stream = 0;
    if (CUresult result = cu.cuStreamGetCtx(stream, &context)) return to_failure(result);
    if (!instance.contexts.find(context, device_of_stream))
        if (failure failed = instance.contexts.device_of(context, device_of_stream)) return failed;
    if (device == device_of_stream) return {.status = call_optional(cu.cuMemAllocAsync, &address, size, stream)};
    CUmemoryPool pool = nullptr;
    if (failure failed = instance.pools.get_current({FERRY_LOCATION_DEVICE, device}, pool)) return failed;
    return {.status = call_optional(cu.cuMemAllocFromPoolAsync, &address, size, pool, stream)};
}

// The pool's device, or -1.
failure allocate_from(ferry_instance &instance, CUmemoryPool pool, int device, std::uint64_t size, CUstream stream,
                      CUdeviceptr &address) noexcept {
    context_choice choice;
    if (failure failed = choose_context_on(instance.cu, instance.contexts, stream, device, choice)) return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    return {.status = call_optional(instance.cu.cuMemAllocFromPoolAsync, &address, size, pool, stream)};
}

[[gnu::noinline]] failure free_on_default_stream(ferry_instance &instance, std::uint64_t address,
                                                 CUstream stream) noexcept {
    address_facts facts;
    if (failure failed = look_up_address(instance.cu, address, ask::kind_only, facts)) return failed;
    context_choice choice;
    if (failure failed = choose_context_on(instance.cu, instance.contexts, stream, facts.device, choice)) return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    return {.status = call_optional(instance.cu.cuMemFreeAsync, address, stream)};
}

[[gnu::cold, gnu::noinline]] std::int32_t why_not_freed(ferry_instance &instance, std::uint64_t address,
                                                        std::int32_t status) noexcept {
    if (status != refused) return pool_status(noted(instance, status));
    address_facts facts;
    if (look_up_address(instance.cu, address, ask::everything, facts)) return status;
    const bool is_there = facts.kind != memory_kind::pageable && facts.range_start == address;
    const bool is_kind = facts.kind == memory_kind::device || facts.pool;
    return is_there && is_kind ? status : FERRY_ERROR_ADDRESS;
}

} // namespace

std::int32_t allocate_on_stream(ferry_instance &instance, std::int32_t device, std::uint64_t size, CUstream stream,
                                std::uint64_t &address) noexcept {
    CUdeviceptr allocated = 0;
    const bool is_streams_own = device == FERRY_DEVICE_UNKNOWN || (device == 0 && instance.limits.device_count == 1);
    const int32_t status = is_streams_own && !belongs_to_current_context(stream)
                               ? call_optional(instance.cu.cuMemAllocAsync, &allocated, size, stream)
                               : allocate(instance, device, size, stream, allocated).status;
    if (status) return pool_status(noted(instance, status));
    address = allocated;
    return FERRY_SUCCESS;
}

std::int32_t allocate_from_pool(ferry_instance &instance, CUmemoryPool pool, std::uint64_t size, CUstream stream,
                                std::uint64_t &address) noexcept {
    CUdeviceptr allocated = 0;
    pool_location where;
    int32_t status = FERRY_SUCCESS;
    if (!belongs_to_current_context(stream)) {
        status = call_optional(instance.cu.cuMemAllocFromPoolAsync, &allocated, size, pool, stream);
    } else {
        status =
            administer_own(instance, pool, [&]() noexcept -> failure { return instance.pools.locate(pool, where); });
        const int device = where.location == FERRY_LOCATION_DEVICE ? where.index : -1;
        if (!status) status = allocate_from(instance, pool, device, size, stream, allocated).status;
    }
    if (status)
        return instance.sharing.is_imported(pool, where) ? FERRY_ERROR_IMPORTED : pool_status(noted(instance, status));
    address = allocated;
    return FERRY_SUCCESS;
}

std::int32_t free_on_stream(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept {
    if (instance.fork_mark.is_in_child()) return no_driver_in_child;
    if (instance.sharing.is_imported(address)) return FERRY_ERROR_IMPORTED; // the driver would close it
    const int32_t status = belongs_to_current_context(stream)
                               ? free_on_default_stream(instance, address, stream).status
                               : call_optional(instance.cu.cuMemFreeAsync, address, stream);
    return status ? why_not_freed(instance, address, status) : FERRY_SUCCESS;
}

} // namespace ferry
