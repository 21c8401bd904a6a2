#include "call/memory.h"

#include "call/staging.h"
#include "memory/address.h"

namespace ferry {

failure free_device_memory(ferry_instance &instance, std::uint64_t address) noexcept {
    address_facts facts;
    if (failure failed = look_up_address(instance.cu, address, ask::everything, facts)) return failed;
    if (facts.kind != memory_kind::device && facts.kind != memory_kind::managed && !facts.pool)
        return {.status = FERRY_ERROR_ADDRESS};
    if (instance.sharing.is_imported(address)) return {.status = FERRY_ERROR_IMPORTED};
    context_scope scope(instance.cu);
    const bool is_on_device = facts.kind == memory_kind::device;
    if (failure failed =
            is_on_device ? enter_device(instance, facts.device, scope) : enter_any(instance, nullptr, scope))
        return failed;
    return to_failure(instance.cu.cuMemFree(address));
}

failure allocate_host(ferry_instance &instance, const host_request &request, ferry_host_block &told) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_any(instance, nullptr, scope)) return failed;
    host_block block;
    if (failure failed = instance.pinned.allocate(request, block)) {
        note_failure(instance, failed);
        return failed;
    }
    told.memory = block.origin == FERRY_HOST_FROM_SYSTEM ? FERRY_MEMORY_PAGEABLE : FERRY_MEMORY_PINNED;
    told.address = reinterpret_cast<void *>(block.address);
    told.size = block.size;
    told.origin = block.origin;
    told.numa_node = node_of_page(told.address);
    return {};
}

failure describe_address(ferry_instance &instance, std::uint64_t address, ferry_address_info &found) noexcept {
    address_facts facts;
    const auto look_up = [&]() noexcept {
        return look_up_whole_range(instance.cu, instance.pinned.ranges(), address, facts);
    };
    if (failure failed = look_up()) return failed;
    if (facts.kind == memory_kind::pinned && (facts.pool || !facts.device_address)) {
        context_scope scope(instance.cu); // none may have been current
        if (failure failed = enter_any(instance, nullptr, scope)) return failed;
        if (failure failed = look_up()) return failed;
    }
    found.memory = public_kind(kind_to_context(facts));
    found.device = facts.device;
    found.range_start = facts.range_start;
    found.range_size = facts.range_size;
    found.device_address = facts.device_address;
    found.pool = facts.pool;
    return {};
}

} // namespace ferry
