// Caches the kind of memory behind the addresses of many copies. The driver is asked once per allocation. The cache
// lasts for one call, because nothing reports when an allocation ends.
#pragma once

#include "base/growing.h"
#include "memory/address.h"
#include "memory/host_ranges.h"
#include "system/address_space.h"

namespace ferry {

// How kernels of the context see a range. The uses of source and destination decide which way a piece can go.
enum class range_use : std::uint8_t { none, pinned, of_device, of_peer, managed, pageable };
constexpr int range_uses = 6;

struct known_range {
    std::uint64_t first = 0;
    std::uint64_t size = 0;  // 0: the single range for memory that the driver does not know
    std::uint64_t alias = 0; // added to an address for kernels of the context (trap 15); wraps around
    memory_kind kind = memory_kind::pageable;
    bool is_reached = false;       // kernels of the context can access the range
    bool has_known_extent = false; // reported by the driver; if not, the range covers the requested bytes so far
    range_use as_source = range_use::none, as_destination = range_use::none;
    int device = -1; // of device memory

    bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept {
        const std::uint64_t into = address - first;
        return into < size && bytes <= size - into;
    }
    std::uint64_t room_from(std::uint64_t address) const noexcept { return size - (address - first); }
};

// What tells pageable memory from other memory without the driver. Empty: nothing does.
struct host_knowledge {
    const address_space *mappings = nullptr;
    const host_ranges *pinned = nullptr;
};

class known_ranges {
public:
    explicit known_ranges(const allocator &memory) noexcept : ranges_(memory), facts_(memory), sorted_(memory) {}

    static constexpr std::uint32_t unknown = 0; // index of the range for memory the driver does not know

    // Clears the cache for a call that copies about `bytes` in `context`, which is current from now on. Unless `host` is empty,
    // after some pageable addresses in a private mapping, all of that mapping is assumed to be pageable, but for what
    // `host` knows to be pinned. Memory that others registered there is then mistaken for pageable, see
    // check_assumption. May fail with FERRY_ERROR_OUT_OF_MEMORY.
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

    // Asks the driver about an address in the range, if that is assumed to be pageable. Returns false if it is not.
    error check_assumption(std::uint64_t address, std::uint32_t index, bool &is_right) const noexcept;

    // Returns the range that holds these bytes if it is known already, else `unknown`.
    [[gnu::always_inline]] std::uint32_t find_known(std::uint64_t address, std::uint64_t bytes) noexcept {
        const std::uint32_t index = memo_[slot_of(address)];
        return ranges_[index].holds(address, bytes) ? index : search_and_remember(address, bytes);
    }

    // Finds the range that holds `address`, and asks the driver if need be. If the driver does not report the extent,
    // the range covers `bytes`. If the driver does not know the memory because a capture allocated it, a
    // `stated_device` that is not negative is believed.
    error find(std::uint64_t address, std::uint64_t bytes, int stated_device, std::uint32_t &index) noexcept;

private:
    struct place {
        std::uint64_t first;
        std::uint32_t index;
    };

    // Returns the slot of the stretch (an aligned power of two of bytes) in which an address lies. Two stretches that
    // share a slot, or two ranges that share a stretch, cost searches. The multiplication scatters allocations, which
    // drivers begin at multiples of 2 MiB.
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
    // Finds the largest range around `address`, which is pageable, that may be assumed to be pageable.
    bool assume_pageable(std::uint64_t address, known_range &range) noexcept;
    error query(std::uint64_t address, std::uint64_t bytes, int stated_device, known_range &range,
                address_facts &facts) noexcept;

    static constexpr int slot_bits = 12;
    static constexpr int min_stretch_bits = 12; // distinguishes allocations of one page
    static constexpr int max_stretch_bits = 63;
    // The smallest range fills at most this many stretches, and at least half as many if min_stretch_bits_ permits.
    static constexpr std::uint64_t stretches_of_range = 32;
    static constexpr std::uint64_t max_stretches = 256; // filled by all bytes that a call copies

    const driver_table *cu_ = nullptr;
    CUcontext context_ = nullptr;
    int context_device_ = -1;
    CUstream stream_ = nullptr;
    host_knowledge host_;
    unsigned pageable_in_a_row_ = 0; // the driver's last answers
    unsigned not_assumed_ = 0;       // how often no private mapping was found
    host_mapping not_private_;       // the mapping that was found instead, the last time
    growing<known_range> ranges_;
    growing<address_facts> facts_;            // the driver's answers, parallel to ranges_, which loops over pieces read
    growing<place> sorted_;                   // all ranges but the unknown one, by address
    int min_stretch_bits_ = min_stretch_bits; // for the number of bytes that this call copies
    int stretch_bits_ = max_stretch_bits;
    std::uint16_t memo_[1 << slot_bits] = {}; // slots refer to the first 65536 ranges
};

} // namespace ferry
