// What lies behind the addresses of many copies: the driver is asked once for each allocation, and only for the time of
// one call, as nothing tells when an allocation ends.
#pragma once

#include "base/growing.h"
#include "memory/address.h"

namespace ferry {

// What a range is to the kernels of the context, of which pairs make the ways that a piece can go.
enum class range_use : std::uint8_t { none, pinned, of_device, of_peer, managed };
constexpr int range_uses = 5;

struct known_range {
    std::uint64_t first = 0;
    std::uint64_t size = 0;  // 0: of the one range that stands for memory the driver does not know
    std::uint64_t alias = 0; // to an address here, for what a kernel of the context takes (trap 15); wraps around
    memory_kind kind = memory_kind::pageable;
    bool is_reached = false; // by kernels of the context
    bool is_told = false;    // how far it goes; else as far as was asked for until now
    range_use as_source = range_use::none, as_destination = range_use::none;
    int device = -1; // of device memory

    bool holds(std::uint64_t address, std::uint64_t bytes) const noexcept {
        const std::uint64_t into = address - first;
        return into < size && bytes <= size - into;
    }
    std::uint64_t room_from(std::uint64_t address) const noexcept { return size - (address - first); }
};

class known_ranges {
public:
    explicit known_ranges(const allocator &memory) noexcept : ranges_(memory), sorted_(memory) {}

    static constexpr std::uint32_t unknown = 0; // the range of what the driver does not know

    // Forgets all, for the context that is current from now on, and about `bytes` at either end. FERRY_ERROR_OUT_OF_MEMORY.
    failure begin(const driver_table &cu, CUcontext context, int context_device, CUstream stream,
                  std::uint64_t bytes) noexcept;

    const known_range &operator[](std::uint32_t index) const noexcept { return ranges_[index]; }
    std::size_t size() const noexcept { return ranges_.size(); }

    // The range that holds these bytes, if it is known already, or `unknown`.
    [[gnu::always_inline]] std::uint32_t find_known(std::uint64_t address, std::uint64_t bytes) noexcept {
        const std::uint32_t index = memo_[slot_of(address)];
        return ranges_[index].holds(address, bytes) ? index : search_and_remember(address, bytes);
    }

    // The range that holds `address`. Where the driver does not tell how far one goes, it is told for `bytes`; where it does
    // not know a capture's own memory, `stated_device`, unless that is negative, is believed.
    failure find(std::uint64_t address, std::uint64_t bytes, int stated_device, std::uint32_t &index) noexcept;

private:
    // Of the stretch that it lies in. Two that share a slot, or two ranges that share a stretch, cost searches: drivers begin
    // allocations at multiples of 2 MiB, which the multiplication scatters.
    std::uint32_t slot_of(std::uint64_t address) const noexcept {
        constexpr std::uint64_t golden = 0x9e37'79b9'7f4a'7c15;
        return static_cast<std::uint32_t>(((address >> stretch_bits_) * golden) >> (64 - slot_bits));
    }
    void set_stretch(int bits) noexcept;
    bool search(std::uint64_t address, std::uint32_t &index) const noexcept;
    [[gnu::noinline]] std::uint32_t search_and_remember(std::uint64_t address, std::uint64_t bytes) noexcept;
    void remember(std::uint64_t address, std::uint32_t index) noexcept {
        if (index <= UINT16_MAX) memo_[slot_of(address)] = static_cast<std::uint16_t>(index);
    }
    void remember_all(const known_range &range, std::uint32_t index) noexcept;
    failure ask(std::uint64_t address, std::uint64_t bytes, int stated_device, known_range &range) noexcept;

    struct place {
        std::uint64_t first;
        std::uint32_t index;
    };
    static constexpr int slot_bits = 12;
    static constexpr int least_stretch_bits = 12; // that allocations of one page are told apart
    static constexpr int most_stretch_bits = 63;
    static constexpr std::uint64_t stretches_of_range = 32; // of the smallest, or fewer; the half of that at least
    static constexpr std::uint64_t most_stretches = 256;    // of all that is copied

    const driver_table *cu_ = nullptr;
    CUcontext context_ = nullptr;
    int context_device_ = -1;
    CUstream stream_ = nullptr;
    growing<known_range> ranges_;
    growing<place> sorted_;                       // all but the unknown one, by address
    int least_stretch_bits_ = least_stretch_bits; // for as many bytes as this call copies
    int stretch_bits_ = most_stretch_bits;
    std::uint16_t memo_[1 << slot_bits] = {}; // of the first 65536 ranges
};

} // namespace ferry
