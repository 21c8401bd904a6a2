// Records what the driver does not report about host memory: the blocks that ferry allocated, and the pieces in which
// the caller's memory was registered. The driver rejects a copy that starts in one piece and extends past its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/growing.h"
#include "memory/own_memory.h"

namespace ferry {

// Memory from ferry_host_alloc or a pinned pool, or memory of ferry itself.
struct host_block {
    std::uint64_t address;
    std::uint64_t size;
    std::int32_t origin; // FERRY_HOST_FROM_*
    host_owner owner;
    bool is_leaving = false; // being freed; restored if that fails
};

// Memory that the caller registered, in pieces of `piece` bytes. The first piece begins at the start of the page that
// contains `address`.
struct host_registration {
    std::uint64_t address;
    std::uint64_t size;
    std::uint64_t piece;
    bool is_leaving = false; // being unregistered in stream order; restored if that fails

    // Returns the first address past the piece that contains `inside`.
    std::uint64_t end_of_piece(std::uint64_t inside) const noexcept;
};

class host_ranges {
public:
    // Blocks of ferry itself count in `own` until their record is dropped.
    host_ranges(const allocator &memory, own_memory &own) noexcept
        : blocks_(memory, own), registrations_(memory, own) {}

    // Adds a record, or returns false if there is no memory for it. Drops older records that overlap: the driver no
    // longer knows their memory, because its context ended or another library freed it.
    [[nodiscard]] bool add(const host_block &block) noexcept;
    [[nodiscard]] bool add(const host_registration &registration) noexcept;

    // Drops the records of a range, because the driver has reused the addresses.
    void forget(std::uint64_t address, std::uint64_t size) noexcept;

    // Finds the block that contains `address`.
    bool find_block(std::uint64_t address, host_block &block) const noexcept;
    // Claims the block of `owner` that starts at `address`, so that no other thread frees it.
    bool begin_freeing(std::uint64_t address, host_owner owner, host_block &block) noexcept;
    void end_freeing(std::uint64_t address, bool is_gone) noexcept;
    // Adds the record of a block that is being freed. False if a record contains its address, or if there is no memory
    // for the record.
    [[nodiscard]] bool add_leaving(const host_block &block) noexcept;

    bool find_registration(std::uint64_t address, host_registration &registration) const noexcept {
        return has_registered() && look_up_registration(address, registration);
    }
    // Removes the registration that starts at `address`, unless it is claimed.
    bool remove_registration(std::uint64_t address, host_registration &registration) noexcept;
    // Claims the registration that starts at `address`, so that no other thread unregisters it.
    bool begin_unregistering(std::uint64_t address, host_registration &registration) noexcept;
    void end_unregistering(std::uint64_t address, bool is_gone) noexcept;

    // Returns the first address past the registered piece that contains `address`; 0 if `address` was not registered
    // through this instance.
    std::uint64_t end_of_piece(std::uint64_t address) const noexcept;
    // Returns the start of the first registration at or after `address`; UINT64_MAX if not found.
    std::uint64_t next_registration(std::uint64_t address) const noexcept {
        return has_registered() ? look_up_next_registration(address) : UINT64_MAX;
    }
    // Reduces [first, end), which contains `address`, to the part around `address` that no record overlaps; to an empty
    // range if a record contains `address`.
    void leave_out_records(std::uint64_t address, std::uint64_t &first, std::uint64_t &end) const noexcept;

private:
    template <class Range> class sorted_ranges {
    public:
        sorted_ranges(const allocator &memory, own_memory &own) noexcept : own_(own), ranges_(memory) {}
        [[nodiscard]] bool add(const Range &range) noexcept;
        void forget_overlapping(std::uint64_t address, std::uint64_t size) noexcept;
        // Returns the range that contains an address; null if not found.
        Range *find(std::uint64_t address) noexcept;
        const Range *find(std::uint64_t address) const noexcept {
            return const_cast<sorted_ranges *>(this)->find(address);
        }
        const Range *first_from(std::uint64_t address) const noexcept;
        void leave_out(std::uint64_t address, std::uint64_t &first, std::uint64_t &end) const noexcept;
        void remove(const Range &range) noexcept;

    private:
        // Returns the index of the first range that starts at or after `address`.
        std::size_t lower_bound(std::uint64_t address) const noexcept;
        own_memory &own_;
        growing<Range> ranges_;
    };

    // Most programs register nothing, and then the mutex need not be locked.
    bool has_registered() const noexcept { return is_unlikely(has_registered_.load(std::memory_order_relaxed)); }
    bool look_up_registration(std::uint64_t address, host_registration &registration) const noexcept;
    std::uint64_t look_up_next_registration(std::uint64_t address) const noexcept;

    std::atomic<bool> has_registered_ = false;
    mutable std::mutex mutex_;
    sorted_ranges<host_block> blocks_;
    sorted_ranges<host_registration> registrations_;
};

} // namespace ferry
