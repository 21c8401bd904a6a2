// From pieces to the table of the kernel that copies them. A table is `count` records of kernels::piece, 24 bytes each:
// destination, source, size below 4 GiB, and the number of units before this piece. It lies in the kernel's parameters,
// or anywhere the device reads.
#pragma once

#include <cstdint>

#include "kernels/parameters.h"

namespace ferry {

// How the pieces of one launch are cut. A unit is what one team copies with all its accesses under way at once, or a
// multiple of it.
struct piece_cut {
    std::uint32_t unit_shift, team_shift; // bytes of a unit, threads of a team
};

// For `count` pieces of `bytes` together.
piece_cut cut_pieces(std::uint64_t count, std::uint64_t bytes) noexcept;

// Writes a table. A piece beyond what a record can say takes several.
class piece_packer {
public:
    // `table` has room for `room` records.
    piece_packer(kernels::piece *table, std::uint32_t room, const piece_cut &cut) noexcept
        : table_(table), room_(room), cut_(cut) {}

    // Addresses as the kernel's device has them; a size of 0 is left out. False where there is no room for all of the
    // piece, of which nothing is added then.
    [[nodiscard]] bool add(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept {
        if (size > largest_record) return add_in_parts(destination, source, size);
        if (size == 0) return true;
        if (count_ == room_) return false;
        // Counted from where the destination is aligned to 16 bytes, as the kernel does.
        const std::uint64_t units =
            ((destination & 15) + size + (std::uint64_t{1} << cut_.unit_shift) - 1) >> cut_.unit_shift;
        if (units_ + units > UINT32_MAX) return false;
        table_[count_++] = {destination, source, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(units_)};
        units_ += units;
        return true;
    }

    std::uint32_t count() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }

    // As many blocks as have work, at most `blocks`.
    std::uint32_t blocks_with_work(std::uint32_t blocks) const noexcept;
    // For a launch of exactly `blocks` blocks.
    kernels::piece_work work_for(std::uint32_t blocks) const noexcept;

    static constexpr std::uint64_t largest_record = std::uint64_t{1} << 31;

private:
    bool add_in_parts(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept;

    kernels::piece *table_;
    std::uint32_t room_;
    piece_cut cut_;
    std::uint32_t count_ = 0;
    std::uint64_t units_ = 0;
};

} // namespace ferry
