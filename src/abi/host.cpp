// Pinned host memory and registrations.
#include <cstddef>

#include "base/sized.h"
#include "call/instance.h"
#include "driver/result.h"

using namespace ferry;

namespace {

std::uint64_t number(const void *address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

failure allocate(ferry_instance &instance, const host_request &request, ferry_host_block &told) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_any(instance, nullptr, scope)) return failed;
    host_block block;
    if (failure failed = instance.pinned.allocate(request, block)) return failed;
    told.memory = block.origin == FERRY_HOST_FROM_SYSTEM ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_PINNED;
    told.address = reinterpret_cast<void *>(block.address);
    told.size = block.size;
    told.origin = block.origin;
    told.numa_node = node_of_page(told.address);
    return {};
}

failure allocate_as_told(ferry_instance &instance, std::uint64_t size, const ferry_host_options *options,
                         ferry_host_block *block) noexcept {
    // A block whose address the caller does not get would be lost.
    if (!plausible_size(block->struct_size) || block->struct_size < offsetof(ferry_host_block, origin))
        return abi_mismatch(block->struct_size, sizeof *block);
    if (!size) return {FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_SIZE};
    host_request request;
    if (failure failed = read_host_options(options, size, instance.pinned, request)) return failed;
    ferry_host_block told = {};
    if (failure failed = allocate(instance, request, told)) return failed;
    return write_sized(told, block);
}

} // namespace

extern "C" {

int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, uint32_t flags, void **address) {
    if (address) *address = nullptr;
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    if (flags & ~(FERRY_HOST_WRITE_COMBINED | FERRY_HOST_BY_DRIVER | FERRY_HOST_NOT_PORTABLE | FERRY_HOST_NOT_MAPPED))
        return FERRY_ERROR_FLAGS;
    ferry_host_block told = {};
    if (failure failed = allocate(*instance, {.size = size, .flags = flags}, told)) return failed.status;
    *address = told.address;
    return FERRY_SUCCESS;
}

int32_t ferry_host_alloc_with_options(ferry_instance *instance, uint64_t size, const ferry_host_options *options,
                                      ferry_host_block *block, ferry_error_info *error) {
    if (!instance || !block) return report(error, null_argument);
    return report(error, allocate_as_told(*instance, size, options, block));
}

int32_t ferry_host_free(ferry_instance *instance, void *address) {
    if (!instance) return FERRY_ERROR_INVALID_ARGUMENT;
    if (!address) return FERRY_SUCCESS;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return instance->pinned.free(number(address), host_owner::caller).status;
}

int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags) {
    if (!instance || !address || !size) return FERRY_ERROR_INVALID_ARGUMENT;
    if (flags & ~FERRY_REGISTER_READ_ONLY) return FERRY_ERROR_FLAGS;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return instance->pinned.register_range(number(address), size, flags).status;
}

int32_t ferry_host_unregister(ferry_instance *instance, void *address) {
    if (!instance || !address) return FERRY_ERROR_INVALID_ARGUMENT;
    context_scope scope(instance->cu);
    if (failure failed = enter_any(*instance, nullptr, scope)) return failed.status;
    return instance->pinned.unregister_range(number(address)).status;
}

} // extern "C"
