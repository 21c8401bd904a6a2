// What is this address? Asks the driver what lies there.
#pragma once

#include "base/status.h"
#include "driver/table.h"
#include "memory/host_ranges.h"

namespace ferry {

enum class memory_kind : std::uint8_t {
    host,     // host memory; whether it is pinned was not asked
    pageable, // unknown to the driver
    pinned,
    host_pool, // of a pool in host memory, which the context's device reaches
    device,
    managed,
    array,
};

constexpr bool is_host(memory_kind kind) noexcept { return kind <= memory_kind::host_pool; }
constexpr bool is_pinned(memory_kind kind) noexcept {
    return kind == memory_kind::pinned || kind == memory_kind::host_pool;
}

// FERRY_MEMORY_*.
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

struct address_facts {
    memory_kind kind = memory_kind::pageable;
    int device = -1;               // of device memory
    std::uint64_t range_start = 0; // of the allocation or registration; 0 where not asked or not told
    std::uint64_t range_size = 0;
    std::uint64_t device_address = 0; // to the current context; likewise
    CUmemoryPool pool = nullptr;      // that it is of; likewise
    bool is_mapped = false;           // to kernels of the current context, as far as the device address tells; likewise
    bool is_writable = false;         // by them, where it is mapped; only where access was asked for
    CUcontext owner = nullptr;        // none of memory of pools; likewise
};

// By the number of attributes, each of which costs some nanoseconds.
enum class ask : unsigned { nothing = 0, kind_only = 3, kind_and_reach = 5, everything = 7, everything_and_access = 9 };

// Unknown addresses are pageable. Needs no current context, but without one host memory may be told no device address.
failure look_up_address(const driver_table &cu, std::uint64_t address, ask how_much, address_facts &facts) noexcept;

// With the whole of a registration for its range, however many pieces it was given to the driver in.
failure look_up_whole_range(const driver_table &cu, const host_ranges &ranges, std::uint64_t address,
                            address_facts &facts) noexcept;
// Memory of a pool in host memory: to the devices that have access to the pool the driver copies it as their own memory,
// to the others as pageable memory. It has no device address then, to the context that was current when this was asked.
constexpr memory_kind kind_to_context(const address_facts &facts) noexcept {
    if (facts.kind != memory_kind::pinned) return facts.kind;
    return !facts.device_address ? memory_kind::pageable : facts.pool ? memory_kind::host_pool : memory_kind::pinned;
}

// What the driver says of memory that was taken at the caller's word: pageable or pinned, device or managed. Arrays stay
// arrays. The copy's context must be current.
failure look_up_kind(const driver_table &cu, std::uint64_t address, memory_kind &kind) noexcept;

// Whether the current context reaches device memory at `address`: its own, managed or pinned memory, a peer's with access.
bool is_within_reach(const driver_table &cu, std::uint64_t address) noexcept;

// Whether kernels of the current context, which is `context` on `context_device`, reach what `facts` tell of, everything
// and access; they find it at its device address. Device memory of another context on the same device is not mapped in
// this one.
constexpr bool is_reached_by_kernels(const address_facts &facts, CUcontext context, int context_device) noexcept {
    if (facts.kind != memory_kind::device) return facts.is_mapped;
    return facts.is_mapped && (facts.device != context_device || !facts.owner || facts.owner == context);
}

// Whether copies that name no contexts find device memory at `address`, in the current context: memory of pools needs
// access to the pool, all other is found from everywhere. What a capture has allocated is not known yet; it will be
// reached from its own device.
bool is_found_by_copies(const driver_table &cu, std::uint64_t address, bool is_on_device_of_context) noexcept;

// Whether the process itself may read the first and the last byte of a host range. True where the system does not tell.
bool host_range_is_readable(std::uint64_t first, std::uint64_t last) noexcept;

} // namespace ferry
