#include "staging/buffers.h"

#include "driver/result.h"

namespace ferry {

error staged_memory::allocate(const driver_table &cu, pinned_memory &pinned, std::uint64_t size, std::uint64_t least,
                              int node, host_owner owner) noexcept {
    host_request request;
    request.size = size;
    request.min_size = least;
    request.flags = least < size ? FERRY_HOST_ALLOW_SMALLER : 0;
    request.node = node;
    request.owner = owner;
    host_block made = {};
    if (error failed = pinned.allocate(request, made)) return failed;
    address_facts facts;
    error failed = look_up_address(cu, made.address, address_query::everything, facts);
    if (!failed && !facts.device_address) failed = {.status = FERRY_ERROR_UNSUPPORTED};
    if (failed) {
        pinned.free(made.address, owner);
        return failed;
    }
    block = made;
    device_address = facts.device_address;
    return {};
}

error staged_memory::free(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned) noexcept {
    if (!*this) return {};
    context_scope scope(cu);
    CUcontext any = nullptr;
    if (!contexts.get_any(any)) static_cast<void>(scope.enter(any)); // if this fails, the call below fails too
    const error failed = pinned.free(block.address, block.owner);
    const bool ended_with_its_context = failed.status == to_status(CUDA_ERROR_INVALID_VALUE);
    if (failed && !ended_with_its_context) return failed;
    block = {};
    return {};
}

} // namespace ferry
