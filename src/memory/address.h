// Classifies addresses by asking the driver what kind of memory lies there.
#pragma once

#include "base/status.h"
#include "driver/table.h"
#include "memory/host_ranges.h"

namespace ferry {

enum class memory_kind : std::uint8_t {
    host,     // host memory; the driver was not asked whether it is pinned
    pageable, // unknown to the driver
    pinned,
    host_pool,  // memory of a host pool that the context's device can access
    far_pinned, // the same, but only the device of the copy's other end can access it: pageable to the context
    device,
    managed,
    array,
};

constexpr bool is_host(memory_kind kind) noexcept { return kind <= memory_kind::far_pinned; }
constexpr bool is_pinned(memory_kind kind) noexcept {
    return kind == memory_kind::pinned || kind == memory_kind::host_pool;
}

// Returns the FERRY_MEMORY_* constant of a kind.
constexpr std::int32_t public_kind(memory_kind kind) noexcept {
    switch (kind) {
    case memory_kind::pinned:
    case memory_kind::host_pool:
        return FERRY_MEMORY_PINNED;
    case memory_kind::device:
        return FERRY_MEMORY_DEVICE;
    case memory_kind::managed:
        return FERRY_MEMORY_MANAGED;
    case memory_kind::array:
        return FERRY_MEMORY_ARRAY;
    default:
        return FERRY_MEMORY_PAGEABLE;
    }
}

// Fields that were not asked for, or that the driver does not report, keep the values here.
struct address_facts {
    memory_kind kind = memory_kind::pageable;
    int device = -1;               // of device memory
    std::uint64_t range_start = 0; // of the allocation or registration
    std::uint64_t range_size = 0;
    std::uint64_t device_address = 0; // in the current context
    CUmemoryPool pool = nullptr;      // from which the memory was allocated
    bool is_mapped = false;           // has a device address for kernels of the current context
    bool is_writable = false;         // by kernels of the current context, if mapped
    CUcontext owner = nullptr;        // pool memory has none
};

// The value is the number of attributes to query. Each attribute costs some nanoseconds.
enum class address_query : unsigned {
    nothing = 0,
    kind_only = 3,
    kind_and_reach = 5,
    everything = 7,
    everything_and_access = 9
};

// Reports an address that the driver does not know as pageable. Needs no current context, but without one the driver
// may report no device address for host memory.
[[gnu::hot]] error look_up_address(const driver_table &cu, std::uint64_t address, address_query query,
                                   address_facts &facts) noexcept;

// As look_up_address, but reports the whole registration as the range, even if the driver got it in several pieces.
error look_up_whole_range(const driver_table &cu, const host_ranges &ranges, std::uint64_t address,
                          address_facts &facts) noexcept;
// Returns how the driver's copies treat the memory in the context that was current at the lookup. A device with access
// to a host pool copies the pool's memory as its own. For other devices the memory has no device address and is copied
// as pageable memory.
constexpr memory_kind kind_to_context(const address_facts &facts) noexcept {
    if (facts.kind != memory_kind::pinned) return facts.kind;
    return !facts.device_address ? memory_kind::pageable : facts.pool ? memory_kind::host_pool : memory_kind::pinned;
}

// Returns whether the current context can access `address`: its own device memory, managed or pinned memory, or memory
// of a peer with access.
bool is_within_reach(const driver_table &cu, std::uint64_t address) noexcept;

// Returns whether kernels of the current context can access the memory at its device address. The current context is
// `context` on `context_device`, and `facts` come from address_query::everything_and_access. Device memory of another context on
// the same device is not mapped in this context.
constexpr bool is_reached_by_kernels(const address_facts &facts, CUcontext context, int context_device) noexcept {
    if (facts.kind != memory_kind::device) return facts.is_mapped;
    return facts.is_mapped && (facts.device != context_device || !facts.owner || facts.owner == context);
}

// Returns whether a driver copy that names no contexts can use device memory at `address` in the current context. Pool
// memory needs access to the pool; all other memory works from every context. The driver does not know memory yet that
// a capture has allocated, but the memory's own device will reach it.
bool can_driver_copy(const driver_table &cu, std::uint64_t address, bool is_on_device_of_context) noexcept;

} // namespace ferry
