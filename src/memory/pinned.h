// Pinned host memory. What the driver allocates it gets and pins page by page; the library maps the memory itself in huge
// pages, touches it by several threads and registers it, several times as fast (docs/driver.md), and leaves it to the
// driver where that does not work.
#pragma once

#include "device/facts.h"
#include "memory/host_ranges.h"
#include "memory/pages.h"

namespace ferry {

inline constexpr std::uint32_t most_touching_threads = 64; // as ferry.h says

// What every way of allocating takes.
inline constexpr std::uint32_t common_host_flags =
    FERRY_HOST_WRITE_COMBINED | FERRY_HOST_BY_DRIVER | FERRY_HOST_NOT_PORTABLE | FERRY_HOST_NOT_MAPPED;

struct host_request {
    std::uint64_t size = 0;       // bytes, at least 1
    std::uint64_t least_size = 0; // of FERRY_HOST_ALLOW_SMALLER
    std::uint32_t flags = 0;      // FERRY_HOST_*
    std::uint32_t threads = 0;    // that touch it; 0: as many as help
    int node = any_node;
    host_owner owner = host_owner::caller;
};

class pinned_memory {
public:
    pinned_memory(const driver_table &cu, const allocator &memory) noexcept : cu_(cu), ranges_(memory) {}

    // Before anything else, once the devices are known.
    void set_up(const device_facts *devices, int device_count, std::uint64_t register_chunk) noexcept;

    // All but find_node work in the current context. A capture elsewhere does not mind.
    failure allocate(const host_request &request, host_block &block) noexcept;
    // What is not known is the driver's to free.
    failure free(std::uint64_t address, host_owner owner) noexcept;
    // Of a block whose context has ended, what is still there: not memory of the driver's, whose address may be another's.
    failure free_lost(std::uint64_t address, host_owner owner) noexcept;

    // All pieces or none.
    failure register_range(std::uint64_t address, std::uint64_t size, std::uint32_t flags) noexcept;
    failure unregister_range(std::uint64_t address) noexcept;

    // The node that FERRY_NUMA_* means; refuses what there is not, naming the field.
    failure find_node(std::int32_t numa, std::int32_t device, std::int32_t numa_node, int &node) const noexcept;

    const host_ranges &ranges() const noexcept { return ranges_; }

private:
    failure find_memory(const host_request &request, host_block &block) noexcept;
    failure allocate_pinned(const host_request &request, std::uint64_t size, host_block &block) noexcept;
    failure map_and_register(const host_request &request, std::uint64_t size, host_block &block) noexcept;
    bool map_pageable(const host_request &request, host_block &block) noexcept;
    CUresult release(const host_block &block) noexcept;
    CUresult unregister_pieces(const host_registration &registration, std::uint64_t end) noexcept;

    const driver_table &cu_;
    host_ranges ranges_;
    const device_facts *devices_ = nullptr;
    int device_count_ = 0;
    std::uint64_t register_chunk_ = 0;
    bool registers_in_place_ = false;
};

} // namespace ferry
