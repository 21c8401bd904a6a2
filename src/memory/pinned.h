// Allocates and registers pinned host memory. The driver's allocator obtains and pins memory page by page. ferry maps
// huge pages itself, touches them with several threads and registers them, which is several times as fast
// (docs/driver.md). If that fails, the driver allocates.
#pragma once

#include "device/facts.h"
#include "ferry/ferry_memory.h"
#include "memory/host_ranges.h"
#include "system/pages.h"

namespace ferry {

inline constexpr std::uint32_t max_touching_threads = 64; // the limit stated in ferry.h

// Flags that all allocation functions accept.
inline constexpr std::uint32_t common_host_flags =
    FERRY_HOST_WRITE_COMBINED | FERRY_HOST_BY_DRIVER | FERRY_HOST_NOT_PORTABLE | FERRY_HOST_NOT_MAPPED;

struct host_request {
    std::uint64_t size = 0;     // bytes, at least 1
    std::uint64_t min_size = 0; // for FERRY_HOST_ALLOW_SMALLER
    std::uint32_t flags = 0;    // FERRY_HOST_*
    std::uint32_t threads = 0;  // number of threads that touch the pages; 0: the fastest number
    int node = any_node;
    host_owner owner = host_owner::caller;
};

class pinned_memory {
public:
    pinned_memory(const driver_table &cu, const allocator &memory) noexcept : cu_(cu), ranges_(memory, own_) {}

    // Must be called first, once the devices are known.
    void set_up(const device_facts *devices, int device_count, std::uint64_t register_chunk) noexcept;
    // Limits the memory that ferry itself uses, which is_own() describes. Must be called before the first allocation.
    void set_limit(std::uint64_t limit) noexcept { own_.set_limit(limit); }
    // Pages are touched by the calling thread alone unless a request states the number of threads.
    void start_no_threads() noexcept { starts_threads_ = false; }

    // All functions except find_node work in the current context and do not disturb captures of other threads.
    // Memory that exceeds the limit is refused with FERRY_ERROR_LIMIT before any driver call.
    error allocate(const host_request &request, host_block &block) noexcept;
    // Frees a block. For an address without a record, calls cuMemFreeHost.
    error free(std::uint64_t address, host_owner owner) noexcept;
    // Frees the remains of a block whose context has ended. The driver's own memory ended with the context, and its
    // address may belong to another allocation.
    error free_lost(std::uint64_t address, host_owner owner) noexcept;

    // A free in two steps: claim a block of the caller, so that any other free of it is rejected, then free it. `owner`
    // is the context with which the memory or its registration ends; null: none. Returns FERRY_ERROR_ADDRESS if no
    // block starts at the address or it is already claimed.
    error claim(std::uint64_t address, host_block &block, CUcontext &owner) noexcept;
    void cancel_claim(const host_block &block) noexcept;
    // If the driver fails to free the block, the block stays claimed.
    error free_claimed(const host_block &block) noexcept;
    // For memory of the driver that ended with its context. Makes no driver call.
    void forget_claimed(const host_block &block) noexcept { ranges_.end_freeing(block.address, true); }

    // Registers all pieces or none.
    error register_range(std::uint64_t address, std::uint64_t size, std::uint32_t flags) noexcept;
    error unregister_range(std::uint64_t address) noexcept;
    // An unregistration in two steps, like claim() and free_claimed(). Returns FERRY_ERROR_ADDRESS if no registration of
    // this instance starts at the address or it is already claimed. A registration whose context has ended is dropped,
    // and the driver's status is returned.
    error claim_registration(std::uint64_t address, host_registration &registration, CUcontext &owner) noexcept;
    void cancel_claim(const host_registration &registration) noexcept {
        ranges_.end_unregistering(registration.address, false);
    }
    // If the driver fails to unregister a piece, the registration stays claimed.
    error unregister_claimed(const host_registration &registration) noexcept;
    // For a registration that ended with its context. Makes no driver call.
    void forget_claimed(const host_registration &registration) noexcept {
        ranges_.end_unregistering(registration.address, true);
    }

    // Finds the node that FERRY_NUMA_* selects. Rejects a device or node that does not exist, and names the field.
    error find_node(std::int32_t numa, std::int32_t device, std::int32_t numa_node, int &node) const noexcept;

    const host_ranges &ranges() const noexcept { return ranges_; }
    const own_memory &own() const noexcept { return own_; }
    // The bytes that can be allocated for the owner before the limit is reached.
    std::uint64_t room(host_owner owner) const noexcept { return is_own(owner) ? own_.all().left() : UINT64_MAX; }

private:
    error allocate_within_limit(const host_request &request, host_block &block) noexcept;
    error find_memory(const host_request &request, host_block &block) noexcept;
    error allocate_pinned(const host_request &request, std::uint64_t size, host_block &block) noexcept;
    error map_and_register(const host_request &request, std::uint64_t size, host_block &block) noexcept;
    bool map_pageable(const host_request &request, host_block &block) noexcept;
    call_result release(const host_block &block, bool stays_claimed = false) noexcept;
    call_result unregister_pieces(const host_registration &registration, std::uint64_t end,
                                  bool may_be_gone = false) noexcept;

    const driver_table &cu_;
    own_memory own_;
    host_ranges ranges_;
    const device_facts *devices_ = nullptr;
    int device_count_ = 0;
    std::uint64_t register_chunk_ = 0;
    bool registers_in_place_ = false;
    bool starts_threads_ = true;
};

} // namespace ferry
