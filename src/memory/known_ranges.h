// Caches the kind of memory at the addresses of many copies, so that the driver is queried once per allocation. The
// cache lasts for one call, because nothing reports when an allocation is freed.
#pragma once

#include "base/growing.h"
#include "memory/address.h"
#include "memory/host_ranges.h"
#include "system/address_space.h"

namespace ferry {

// How kernels of the context can use a range. The uses of source and destination determine which routes can serve a
// piece.
enum class range_use : std::uint8_t { none, pinned, host_pool, of_device, of_peer, managed, pageable };
constexpr int range_uses = 7;

struct known_range {
    std::uint64_t first = 0;
    std::uint64_t size = 0;  // 0: the range for all memory that the driver does not know
    std::uint64_t alias = 0; // device address minus host address, for kernels of the context (trap 15); wraps around
    memory_kind kind = memory_kind::pageable;
    bool is_reached = false;       // kernels of the context can access the range
    bool has_known_extent = false; // reported by the driver; otherwise only the requested bytes are covered
    range_use as_source = range_use::none, as_destination = range_use::none;
    int device = -1; // for device memory

    bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept {
        const std::uint64_t into = address - first;
        return into < size && bytes <= size - into;
    }
    std::uint64_t room_from(std::uint64_t address) const noexcept { return size - (address - first); }
};

// What distinguishes pageable memory from other memory without driver calls. Empty: nothing.
struct host_knowledge {
    const address_space *mappings = nullptr;
    const host_ranges *pinned = nullptr;
};

class known_ranges {
public:
    explicit known_ranges(const allocator &memory) noexcept : ranges_(memory), facts_(memory), sorted_(memory) {}

    static constexpr std::uint32_t unknown = 0; // index of the range for memory that the driver does not know

    // Clears the cache for a call that copies about `bytes` in `context`, which must stay current. If `host` is not
    // empty, then after several pageable addresses in a private mapping, the whole mapping is assumed to be pageable,
    // except for memory that `host` knows to be pinned. Memory that other code has registered there is then mistaken
    // for pageable memory: see check_assumption. May fail with FERRY_ERROR_OUT_OF_MEMORY.
    error begin(const driver_table &cu, CUcontext context, int context_device, CUstream stream, std::uint64_t bytes,
                const host_knowledge &host) noexcept;

    const known_range &operator[](std::uint32_t index) const noexcept { return ranges_[index]; }
    std::size_t size() const noexcept { return ranges_.size(); }

    // Returns what the driver would report for an address in the range. Returns false for memory that the driver does
    // not know.
    bool facts_at(std::uint64_t address, std::uint32_t index, address_facts &facts) const noexcept {
        facts = facts_[index];
        facts.device_address = address + ranges_[index].alias;
        return facts.kind != memory_kind::pageable;
    }

    // Queries the driver for an address in a range that is assumed to be pageable. `is_right` is false if it is not
    // pageable.
    error check_assumption(std::uint64_t address, std::uint32_t index, bool &is_right) const noexcept;

    // Returns the range that contains these bytes if it is already known, otherwise `unknown`.
    [[gnu::always_inline]] std::uint32_t find_known(std::uint64_t address, std::uint64_t bytes) noexcept {
        const std::uint32_t index = memo_[slot_of(address)];
        return ranges_[index].holds(address, bytes) ? index : search_and_remember(address, bytes);
    }

    // Finds the range that contains `address`, and queries the driver if necessary. If the driver does not report the
    // extent, the range covers `bytes`. If the driver does not know the memory because it was allocated during a
    // capture, `stated_device` is trusted unless it is negative.
    error find(std::uint64_t address, std::uint64_t bytes, int stated_device, std::uint32_t &index) noexcept;

private:
    struct place {
        std::uint64_t first;
        std::uint32_t index;
    };

    // Returns the slot of the stretch (an aligned power of two of bytes) that contains an address. Two stretches that
    // share a slot, or two ranges that share a stretch, cost searches. The multiplication spreads allocations, which
    // drivers align to 2 MiB.
    std::uint32_t slot_of(std::uint64_t address) const noexcept {
        constexpr std::uint64_t golden = 0x9e37'79b9'7f4a'7c15;
        return static_cast<std::uint32_t>(((address >> stretch_bits_) * golden) >> (64 - slot_bits));
    }
    void set_stretch(int bits) noexcept;
    const place *first_above(std::uint64_t address) const noexcept;
    bool search(std::uint64_t address, std::uint32_t &index) const noexcept;
    [[gnu::noinline]] std::uint32_t search_and_remember(std::uint64_t address, std::uint64_t bytes) noexcept;
    void remember(std::uint64_t address, std::uint32_t index) noexcept {
        if (index <= UINT16_MAX) memo_[slot_of(address)] = static_cast<std::uint16_t>(index);
    }
    void remember_all(const known_range &range, std::uint32_t index) noexcept;
    // Finds the largest range around a pageable `address` that may be assumed to be pageable.
    bool assume_pageable(std::uint64_t address, known_range &range) noexcept;
    error query(std::uint64_t address, std::uint64_t bytes, int stated_device, known_range &range,
                address_facts &facts) noexcept;

    static constexpr int slot_bits = 12;
    static constexpr int min_stretch_bits = 12; // separates allocations of one page
    static constexpr int max_stretch_bits = 63;
    // The smallest range fills at most this many stretches, and at least half as many if min_stretch_bits_ permits it.
    static constexpr std::uint64_t stretches_of_range = 32;
    static constexpr std::uint64_t max_stretches = 256; // filled by all bytes of a call

    const driver_table *cu_ = nullptr;
    CUcontext context_ = nullptr;
    int context_device_ = -1;
    CUstream stream_ = nullptr;
    host_knowledge host_;
    unsigned pageable_in_a_row_ = 0; // number of consecutive pageable results
    unsigned not_assumed_ = 0;       // how often no private mapping was found
    host_mapping not_private_;       // the last mapping found that was not private
    growing<known_range> ranges_;
    growing<address_facts> facts_;            // parallel to ranges_, which loops over pieces read
    growing<place> sorted_;                   // all ranges except `unknown`, by address
    int min_stretch_bits_ = min_stretch_bits; // adjusted to the number of bytes of this call
    int stretch_bits_ = max_stretch_bits;
    std::uint16_t memo_[1 << slot_bits] = {}; // slots can refer to the first 65536 ranges
};

} // namespace ferry
