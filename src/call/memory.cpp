#include "call/memory.h"

#include "call/staging.h"
#include "memory/address.h"
#include "memory/arrays.h"

namespace ferry {

failure free_device_memory(ferry_instance &instance, std::uint64_t address) noexcept {
    address_facts facts;
    if (failure failed = look_up_address(instance.cu, address, ask::everything, facts)) return failed;
    if (facts.kind != memory_kind::device && facts.kind != memory_kind::managed && !facts.pool)
        return {.status = FERRY_ERROR_ADDRESS};
    if (instance.sharing.is_imported(address)) return {.status = FERRY_ERROR_IMPORTED};
    if (instance.deferred.holds(address)) return {.status = FERRY_ERROR_ADDRESS};
    context_scope scope(instance.cu);
    const bool is_on_device = facts.kind == memory_kind::device;
    if (failure failed =
            is_on_device ? enter_device(instance, facts.device, scope) : enter_any(instance, nullptr, scope))
        return failed;
    return to_failure(instance.cu.cuMemFree(address));
}

failure defer_free(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept {
    context_scope scope(instance.cu); // without one a driver may not tell the owner
    if (failure failed = enter_any(instance, nullptr, scope)) return failed;
    address_facts facts;
    if (failure failed = look_up_address(instance.cu, address, ask::everything_and_access, facts)) return failed;
    const bool is_there = facts.kind == memory_kind::device && facts.owner && facts.range_start == address;
    if (!is_there) return {.status = FERRY_ERROR_ADDRESS};
    if (instance.sharing.is_imported(address)) return {.status = FERRY_ERROR_IMPORTED};
    return instance.deferred.give_up(address, facts.range_size, facts.device, facts.owner, stream);
}

void make_room(ferry_instance &instance, int device) noexcept {
    constexpr std::uint64_t share = 16; // as ferry_options says
    const std::uint64_t keep =
        instance.deferred_bytes ? instance.deferred_bytes : instance.devices[device].info.total_memory / share;
    static_cast<void>(instance.deferred.trim(device, keep)); // the allocation may succeed all the same
}

namespace {

template <class Array, class Create>
failure make(ferry_instance &instance, int device, const made_array &like, Array &array,
             const Create &create) noexcept {
    context_scope scope(instance.cu);
    made_array as = like;
    as.device = device;
    if (failure failed = enter_device(instance, device, scope, as.context)) return failed;
    if (instance.deferred.take(as, array)) return {};
    if (failure failed = allocate_on_device(instance, device, create)) {
        note_failure(instance, failed);
        return failed;
    }
    instance.surfaces.note(array, as);
    return {};
}

template <class Array> failure destroy(ferry_instance &instance, Array array) noexcept {
    context_scope scope(instance.cu);
    if (failure failed = enter_any(instance, nullptr, scope)) return failed;
    if (instance.deferred.holds(array)) return {.status = FERRY_ERROR_INVALID_ARGUMENT};
    const failure failed = instance.surfaces.destroy(array);
    note_failure(instance, failed);
    return failed;
}

} // namespace

failure make_array(ferry_instance &instance, int device, const ferry_array_desc &desc, CUarray &array) noexcept {
    const made_array like = {.context = nullptr, .device = 0, .is_mipmapped = false, .levels = 1, .desc = desc};
    return make(instance, device, like, array, [&]() noexcept { return create_array(instance.cu, desc, array); });
}

failure make_mipmapped_array(ferry_instance &instance, int device, const ferry_array_desc &desc, std::uint32_t levels,
                             CUmipmappedArray &mipmapped) noexcept {
    const made_array like = {.context = nullptr, .device = 0, .is_mipmapped = true, .levels = levels, .desc = desc};
    return make(instance, device, like, mipmapped,
                [&]() noexcept { return create_mipmapped_array(instance.cu, desc, levels, mipmapped); });
}

failure destroy_array(ferry_instance &instance, CUarray array) noexcept { return destroy(instance, array); }
failure destroy_array(ferry_instance &instance, CUmipmappedArray mipmapped) noexcept {
    return destroy(instance, mipmapped);
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
