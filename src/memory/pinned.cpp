#include "memory/pinned.h"

#include <algorithm>

#include "base/checked.h"
#include "device/capture_mode.h"
#include "memory/address.h"

namespace ferry {

namespace {

unsigned register_flags(std::uint32_t flags) noexcept {
    return (flags & FERRY_HOST_NOT_PORTABLE ? 0U : CU_MEMHOSTREGISTER_PORTABLE) |
           (flags & FERRY_HOST_NOT_MAPPED ? 0U : CU_MEMHOSTREGISTER_DEVICEMAP);
}

unsigned allocation_flags(std::uint32_t flags) noexcept {
    static_assert(CU_MEMHOSTREGISTER_PORTABLE == CU_MEMHOSTALLOC_PORTABLE &&
                  CU_MEMHOSTREGISTER_DEVICEMAP == CU_MEMHOSTALLOC_DEVICEMAP);
    return register_flags(flags) | (flags & FERRY_HOST_WRITE_COMBINED ? CU_MEMHOSTALLOC_WRITECOMBINED : 0U);
}

inheritance inheritance_of(std::uint32_t flags) noexcept {
    return flags & FERRY_HOST_SHARED ? inheritance::shared : inheritance::none;
}

void *pointer(std::uint64_t address) noexcept { return reinterpret_cast<void *>(address); }
std::uint64_t address_of(const void *pointer) noexcept { return reinterpret_cast<std::uintptr_t>(pointer); }

} // namespace

void pinned_memory::set_up(const device_facts *devices, int device_count, std::uint64_t register_chunk) noexcept {
    constexpr std::uint64_t default_chunk = std::uint64_t{256} << 30; // recent drivers fail for 512 GiB
    devices_ = devices;
    device_count_ = device_count;
    register_chunk_ = register_chunk ? register_chunk : default_chunk;
    registers_in_place_ = std::all_of(devices, devices + device_count, [](const device_facts &facts) {
        return facts.info.host_register && facts.info.registered_address_is_device_address;
    });
}

error pinned_memory::find_node(std::int32_t numa, std::int32_t device, std::int32_t numa_node,
                               int &node) const noexcept {
    node = any_node;
    switch (numa) {
    case FERRY_NUMA_ANY:
        return {};
    case FERRY_NUMA_DEVICE:
        if (device < 0 || device >= device_count_)
            return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_OPTIONS, FERRY_FIELD_DEVICE, numbers::count,
                                 device_count_, device);
        node = devices_[device].info.numa_node;
        return {};
    case FERRY_NUMA_NODE:
        node = numa_node;
        if (is_node(numa_node)) return {};
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_NUMA_NODE, numbers::value, 0,
                             numa_node);
    default:
        return refuse_signed(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_OPTIONS, FERRY_FIELD_NUMA, numbers::up_to,
                             FERRY_NUMA_NODE, numa);
    }
}

// ---- Allocation

error pinned_memory::allocate(const host_request &request, host_block &block) noexcept {
    if (!is_own(request.owner)) return allocate_within_limit(request, block);
    const std::uint64_t least = request.flags & FERRY_HOST_ALLOW_SMALLER ? request.min_size : request.size;
    host_request granted = request;
    granted.size = own_.take_up_to(request.owner, request.size, least, page_size());
    if (granted.size == 0) return own_.all().refuse(FERRY_FIELD_MAX_PINNED_BYTES, least);
    const error failed = allocate_within_limit(granted, block);
    own_.give_back(request.owner, granted.size - (failed ? 0 : block.size));
    return failed;
}

error pinned_memory::allocate_within_limit(const host_request &request, host_block &block) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    if (error failed = find_memory(request, block)) return failed;
    // The driver keeps no record of which of its allocations belong to a pool.
    if (block.origin == FERRY_HOST_FROM_DRIVER && block.owner == host_owner::caller) {
        ranges_.forget(block.address, block.size);
        return {};
    }
    if (ranges_.add(block)) return {};
    release(block);
    return no_memory;
}

// If every attempt fails, returns the driver's error for the full size. A status that reports a dead context is
// returned immediately.
error pinned_memory::find_memory(const host_request &request, host_block &block) noexcept {
    const error refused = allocate_pinned(request, request.size, block);
    if (!refused || means_dead_context(refused.status)) return refused;
    if (request.flags & FERRY_HOST_ALLOW_SMALLER) {
        const std::uint64_t page = page_size(), least = std::max(request.min_size, page);
        for (std::uint64_t size = request.size; size > least;) {
            size = std::max(size / 2 / page * page, least);
            const error failed = allocate_pinned(request, size, block);
            if (!failed || means_dead_context(failed.status)) return failed;
        }
    }
    const bool is_pageable_enough = request.flags & FERRY_HOST_ALLOW_PAGEABLE && map_pageable(request, block);
    return is_pageable_enough ? ok : refused;
}

error pinned_memory::allocate_pinned(const host_request &request, std::uint64_t size, host_block &block) noexcept {
    if (!(request.flags & (FERRY_HOST_WRITE_COMBINED | FERRY_HOST_BY_DRIVER)) && registers_in_place_ &&
        size <= register_chunk_) {
        const error failed = map_and_register(request, size, block);
        if (!failed || means_dead_context(failed.status)) return failed;
    }
    void *address = nullptr;
    if (call_result result = cu_.cuMemHostAlloc(&address, size, allocation_flags(request.flags)))
        return to_error(result);
    block = {address_of(address), size, FERRY_HOST_FROM_DRIVER, request.owner};
    return {};
}

error pinned_memory::map_and_register(const host_request &request, std::uint64_t size, host_block &block) noexcept {
    constexpr error not_enough = to_error(CUDA_ERROR_OUT_OF_MEMORY);
    if (!is_memory_left(size)) return not_enough;
    void *const pages = map_pages(size, request.node, inheritance_of(request.flags));
    if (!pages) return not_enough;
    const std::uint32_t threads = request.threads || starts_threads_ ? request.threads : 1;
    touch_pages(pages, size, inheritance_of(request.flags), threads);
    if (call_result result = cu_.cuMemHostRegister(pages, size, register_flags(request.flags))) {
        unmap_pages(pages, size);
        return to_error(result);
    }
    block = {address_of(pages), size, FERRY_HOST_FROM_MAPPING, request.owner};
    return {};
}

bool pinned_memory::map_pageable(const host_request &request, host_block &block) noexcept {
    void *const pages = map_pages(request.size, request.node, inheritance_of(request.flags));
    if (!pages) return false;
    touch_pages(pages, 1, inheritance::none, 1); // backs the first page; the system backs the other pages on first use
    block = {address_of(pages), request.size, FERRY_HOST_FROM_SYSTEM, request.owner};
    return true;
}

// ---- Release

error pinned_memory::free(std::uint64_t address, host_owner owner) noexcept {
    const relaxed_capture_mode relaxed(cu_); // frees even if this fails: otherwise the memory would leak
    host_registration registration;          // possibly registered pageable memory: devices may be using it
    if (ranges_.find_registration(address, registration)) return {.status = FERRY_ERROR_ADDRESS};
    host_block block;
    if (ranges_.begin_freeing(address, owner, block)) return to_error(release(block));
    if (ranges_.find_block(address, block) && (block.owner != owner || block.is_leaving))
        return {.status = FERRY_ERROR_ADDRESS};
    return to_error(cu_.cuMemFreeHost(pointer(address)));
}

error pinned_memory::free_lost(std::uint64_t address, host_owner owner) noexcept {
    host_block block;
    if (!ranges_.begin_freeing(address, owner, block)) return {};
    if (block.origin != FERRY_HOST_FROM_DRIVER) return to_error(release(block));
    ranges_.end_freeing(address, true);
    return {};
}

// Removes the record before it unmaps the memory, because another block may get the address immediately. For the
// driver's own memory, the driver frees first, and end_freeing detects a reused address.
call_result pinned_memory::release(const host_block &block, bool stays_claimed) noexcept {
    call_result result;
    bool is_gone = true;
    if (block.origin == FERRY_HOST_FROM_DRIVER) {
        result = cu_.cuMemFreeHost(pointer(block.address));
        is_gone = result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE; // the memory was freed with its context
    } else if (block.origin == FERRY_HOST_FROM_MAPPING) {
        result = cu_.cuMemHostUnregister(pointer(block.address));
        // The registration ended with its context, but the memory did not.
        if (result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED || result == CUDA_ERROR_INVALID_VALUE) result = {};
        is_gone = result == CUDA_SUCCESS;
    }
    if (is_gone || !stays_claimed) ranges_.end_freeing(block.address, is_gone);
    if (is_gone && block.origin != FERRY_HOST_FROM_DRIVER) unmap_pages(pointer(block.address), block.size);
    return result;
}

// For a block that the driver allocated, the driver only knows the address. The claim then adds the first record of the
// block.
error pinned_memory::claim(std::uint64_t address, host_block &block, CUcontext &owner) noexcept {
    constexpr error no_block = {.status = FERRY_ERROR_ADDRESS};
    owner = nullptr;
    host_registration registration; // of pageable memory
    if (ranges_.find_registration(address, registration)) return no_block;
    address_facts facts;
    if (error failed = look_up_address(cu_, address, address_query::everything_and_access, facts)) return failed;
    if (facts.kind == memory_kind::pinned) owner = facts.owner;
    if (ranges_.begin_freeing(address, host_owner::caller, block)) return {};
    if (ranges_.find_block(address, block)) return no_block;
    if (!owner || facts.pool || facts.range_start != address) return no_block;
    block = {address, facts.range_size, FERRY_HOST_FROM_DRIVER, host_owner::caller, true};
    if (ranges_.add_leaving(block)) return {};
    return ranges_.find_block(address, block) ? no_block : no_memory;
}

void pinned_memory::cancel_claim(const host_block &block) noexcept {
    ranges_.end_freeing(block.address, block.origin == FERRY_HOST_FROM_DRIVER);
}

error pinned_memory::free_claimed(const host_block &block) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    const call_result result = release(block, true);
    return result == CUDA_ERROR_INVALID_VALUE ? ok : to_error(result); // already freed directly through the driver
}

// ---- Registration

error pinned_memory::register_range(std::uint64_t address, std::uint64_t size, std::uint32_t flags) noexcept {
    const std::uint64_t page = page_size();
    const host_registration wanted = {address, size, std::max(register_chunk_ / page * page, page)};
    std::uint64_t end = 0;
    if (!add(address, size, end))
        return refuse(FERRY_ERROR_OVERFLOW, FERRY_SIDE_NONE, FERRY_FIELD_SIZE, numbers::at_most, UINT64_MAX - address,
                      size);
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    const unsigned how = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         (flags & FERRY_REGISTER_READ_ONLY ? CU_MEMHOSTREGISTER_READ_ONLY : 0U);
    for (std::uint64_t at = address; at < end;) {
        const std::uint64_t next = wanted.end_of_piece(at);
        if (call_result result = cu_.cuMemHostRegister(pointer(at), next - at, how)) {
            unregister_pieces(wanted, at);
            return to_error(result);
        }
        at = next;
    }
    if (ranges_.add(wanted)) return {};
    unregister_pieces(wanted, end);
    return no_memory;
}

error pinned_memory::unregister_range(std::uint64_t address) noexcept {
    const relaxed_capture_mode relaxed(cu_); // unregisters even if this fails: the driver decides
    host_registration registration;
    if (ranges_.remove_registration(address, registration))
        return to_error(unregister_pieces(registration, address + registration.size));
    if (ranges_.find_registration(address, registration) && registration.is_leaving)
        return {.status = FERRY_ERROR_ADDRESS};
    host_block block;
    if (ranges_.find_block(address, block) && block.origin == FERRY_HOST_FROM_MAPPING)
        return {.status = FERRY_ERROR_ADDRESS};
    return to_error(cu_.cuMemHostUnregister(pointer(address)));
}

error pinned_memory::claim_registration(std::uint64_t address, host_registration &registration,
                                        CUcontext &owner) noexcept {
    address_facts facts;
    if (error failed = look_up_address(cu_, address, address_query::everything_and_access, facts)) return failed;
    owner = facts.owner;
    if (!ranges_.begin_unregistering(address, registration)) return {.status = FERRY_ERROR_ADDRESS};
    if (facts.kind == memory_kind::pinned) return {};
    forget_claimed(registration);
    return to_error(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

error pinned_memory::unregister_claimed(const host_registration &registration) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    // An attempt that failed has unregistered the other pieces.
    const call_result result = unregister_pieces(registration, registration.address + registration.size, true);
    if (result == CUDA_SUCCESS) ranges_.end_unregistering(registration.address, true);
    return to_error(result);
}

// Unregisters the pieces up to `end`. Returns the first error.
call_result pinned_memory::unregister_pieces(const host_registration &registration, std::uint64_t end,
                                             bool may_be_gone) noexcept {
    call_result first;
    for (std::uint64_t at = registration.address; at < end; at = registration.end_of_piece(at)) {
        const call_result result = cu_.cuMemHostUnregister(pointer(at));
        if (may_be_gone && result == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) continue;
        if (first == CUDA_SUCCESS) first = result;
    }
    return first;
}

} // namespace ferry
