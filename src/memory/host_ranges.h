// What an instance knows of host memory that the driver does not tell: the blocks that ferry allocated, and in which
// pieces the caller's memory was registered. The driver takes no copy that begins in one piece and leaves it.
#pragma once

#include <cstdint>
#include <mutex>

#include "base/growing.h"

namespace ferry {

enum class host_owner : std::uint8_t { caller, pool };

// Memory of ferry_host_alloc, or of a pinned pool.
struct host_block {
    std::uint64_t address;
    std::uint64_t size;
    std::int32_t origin; // FERRY_HOST_FROM_*
    host_owner owner;
    bool is_leaving = false; // being freed; the owner's, should that fail
};

// Memory that the caller had registered: pieces of `piece` bytes, counted from the page that it begins in.
struct host_registration {
    std::uint64_t address;
    std::uint64_t size;
    std::uint64_t piece;

    // The first address beyond the piece that holds `inside`.
    std::uint64_t end_of_piece(std::uint64_t inside) const noexcept;
};

class host_ranges {
public:
    explicit host_ranges(const allocator &memory) noexcept : blocks_(memory), registrations_(memory) {}

    // False where there is no memory for the record. What overlaps and is still listed is gone from the driver, with its
    // context or behind ferry's back, and is forgotten.
    [[nodiscard]] bool add(const host_block &block) noexcept;
    [[nodiscard]] bool add(const host_registration &registration) noexcept;

    // What was listed there is gone: the driver has given the addresses out anew.
    void forget(std::uint64_t address, std::uint64_t size) noexcept;

    // The block around `address`.
    bool find_block(std::uint64_t address, host_block &block) const noexcept;
    // Takes a block that begins at `address` and is the owner's for freeing: no second thread gets it.
    bool begin_freeing(std::uint64_t address, host_owner owner, host_block &block) noexcept;
    void end_freeing(std::uint64_t address, bool is_gone) noexcept;

    bool find_registration(std::uint64_t address, host_registration &registration) const noexcept;
    // Takes a registration that begins at `address` out.
    bool remove_registration(std::uint64_t address, host_registration &registration) noexcept;

    // The first address beyond the registered piece around `address`; 0 where that is not registered here.
    std::uint64_t end_of_piece(std::uint64_t address) const noexcept;
    // Where the next registration after `address` begins; UINT64_MAX for none.
    std::uint64_t next_registration(std::uint64_t address) const noexcept;

private:
    template <class Range> class sorted_ranges {
    public:
        explicit sorted_ranges(const allocator &memory) noexcept : ranges_(memory) {}
        [[nodiscard]] bool add(const Range &range) noexcept;
        void forget_overlapping(std::uint64_t address, std::uint64_t size) noexcept;
        // Around an address; null for none.
        Range *find(std::uint64_t address) noexcept;
        const Range *find(std::uint64_t address) const noexcept {
            return const_cast<sorted_ranges *>(this)->find(address);
        }
        const Range *first_from(std::uint64_t address) const noexcept;
        void remove(Range &range) noexcept { ranges_.remove(static_cast<std::size_t>(&range - ranges_.begin())); }

    private:
        std::size_t lower_bound(std::uint64_t address) const noexcept; // of the ranges that begin there or later
        growing<Range> ranges_;
    };

    mutable std::mutex mutex_;
    sorted_ranges<host_block> blocks_;
    sorted_ranges<host_registration> registrations_;
};

} // namespace ferry
