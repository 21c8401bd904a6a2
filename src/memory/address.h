// Queries the driver for the kind of memory at an address.
#pragma once

#include "base/status.h"
#include "driver/table.h"
#include "memory/host_ranges.h"

namespace ferry {

enum class memory_kind : std::uint8_t {
    host,     // host memory; not queried whether it is pinned
    pageable, // not known to the driver
    pinned,
    host_pool,  // memory of a host pool that the context's device can access
    far_pinned, // the same, but accessible only to the device at the other end of the copy: pageable to the context
    file,       // an open file, on the host; addresses are offsets in it
    device,
    managed,
    array,
};

constexpr bool is_host(memory_kind kind) noexcept { return kind <= memory_kind::file; }
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
    case memory_kind::file:
        return FERRY_MEMORY_FILE;
    default:
        return FERRY_MEMORY_PAGEABLE;
    }
}

// Fields that were not queried, or that the driver does not report, keep these values.
struct address_facts {
    memory_kind kind = memory_kind::pageable;
    int device = -1;               // device memory only
    std::uint64_t range_start = 0; // start of the allocation or registration
    std::uint64_t range_size = 0;
    std::uint64_t device_address = 0; // in the current context
    CUmemoryPool pool = nullptr;      // the pool that the memory was allocated from
    bool is_mapped = false;           // kernels of the current context have a device address for it
    bool is_writable = false;         // if mapped: kernels of the current context can write it
    CUcontext owner = nullptr;        // null for pool memory
};

// The value is the number of attributes to query. Each attribute costs several nanoseconds.
enum class address_query : unsigned {
    nothing = 0,
    kind_only = 3,
    kind_and_reach = 5,
    everything = 7,
    everything_and_access = 9
};

// Reports an address that the driver does not know as pageable. No context needs to be current, but without a context
// the driver may report no device address for host memory.
[[gnu::hot]] error look_up_address(const driver_table &cu, std::uint64_t address, address_query query,
                                   address_facts &facts) noexcept;

// Same as look_up_address, but reports the whole registration as the range even if the driver registered it in pieces.
error look_up_whole_range(const driver_table &cu, const host_ranges &ranges, std::uint64_t address,
                          address_facts &facts) noexcept;
// Returns how the driver's copies treat the memory in the context that was current during the look-up. For a device
// with access to a host pool, memory of the pool is pinned. For other devices it has no device address and is copied as
// pageable memory.
constexpr memory_kind kind_to_context(const address_facts &facts) noexcept {
    if (facts.kind != memory_kind::pinned) return facts.kind;
    return !facts.device_address ? memory_kind::pageable : facts.pool ? memory_kind::host_pool : memory_kind::pinned;
}

// Returns whether the current context can access `address`: its own device memory, managed or pinned memory, or memory
// of a peer to which it has access.
bool is_within_reach(const driver_table &cu, std::uint64_t address) noexcept;

// Returns whether kernels of the current context can access the memory at its device address. The current context is
// `context` on `context_device`, and `facts` must come from address_query::everything_and_access. Device memory of
// another context on the same device is not mapped in this context.
constexpr bool is_reached_by_kernels(const address_facts &facts, CUcontext context, int context_device) noexcept {
    if (facts.kind != memory_kind::device) return facts.is_mapped;
    return facts.is_mapped && (facts.device != context_device || !facts.owner || facts.owner == context);
}

// Returns whether a driver copy call without context arguments can use device memory at `address` in the current
// context. Pool memory requires access to the pool; all other memory works from every context. The driver does not know
// memory yet that was allocated during a capture, but the device of that memory will be able to access it.
bool can_driver_copy(const driver_table &cu, std::uint64_t address, bool is_on_device_of_context) noexcept;

} // namespace ferry
