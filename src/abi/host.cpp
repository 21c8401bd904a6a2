// Pinned host memory and registrations.
#include "abi/instance.h"
#include "driver/result.h"

using namespace ferry;

extern "C" {

int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, uint32_t flags, void **address) {
    if (address) *address = nullptr;
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    if (flags & ~FERRY_HOST_WRITE_COMBINED) return FERRY_ERROR_FLAGS;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    const unsigned combined = flags & FERRY_HOST_WRITE_COMBINED ? CU_MEMHOSTALLOC_WRITECOMBINED : 0;
    return to_status(
        instance->cu.cuMemHostAlloc(address, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | combined));
}

int32_t ferry_host_free(ferry_instance *instance, void *address) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!address) return FERRY_SUCCESS;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return to_status(instance->cu.cuMemFreeHost(address));
}

int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags) {
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    if (flags & ~FERRY_REGISTER_READ_ONLY) return FERRY_ERROR_FLAGS;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    const unsigned read_only = flags & FERRY_REGISTER_READ_ONLY ? CU_MEMHOSTREGISTER_READ_ONLY : 0;
    return to_status(instance->cu.cuMemHostRegister(
        address, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | read_only));
}

int32_t ferry_host_unregister(ferry_instance *instance, void *address) {
    if (!instance || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return to_status(instance->cu.cuMemHostUnregister(address));
}

int32_t ferry_host_alloc_with_options(ferry_instance *, uint64_t, const ferry_host_options *, ferry_host_block *,
                                      ferry_error_info *) {
    return FERRY_ERROR_UNSUPPORTED;
}

} // extern "C"
