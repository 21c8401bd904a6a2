// Builds the table of the kernel that copies pieces. A table is `count` records of gpu::piece, 24 bytes each:
// destination, source, size below 4 GiB, and the number of units before this piece. The table is in the kernel's
// parameters, or in any memory that the device can read.
#pragma once

#include "plan/kernel_teams.h"

namespace ferry {

// Returns the cut for `count` pieces of `bytes` in total.
team_cut cut_pieces(std::uint64_t count, std::uint64_t bytes) noexcept;

// Writes a table. A piece that is too large for one record occupies several.
class piece_packer : public job_counter {
public:
    // `table` has space for `room` records.
    piece_packer(gpu::piece *table, std::uint32_t room, const team_cut &cut) noexcept
        : job_counter(cut), table_(table), room_(room) {}

    // Adds a piece with device addresses. Skips a size of 0. Returns false, and adds nothing, if there is no space for
    // the whole piece.
    [[nodiscard]] bool add(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept {
        if (size > max_record) return add_in_parts(destination, source, size);
        if (size == 0) return true;
        if (count() == room_) return false;
        gpu::piece &piece = table_[count()];
        // Counts units from the destination rounded down to 16 bytes, like the kernel.
        std::uint32_t first_unit = 0;
        if (!note((destination & 15) + size, first_unit)) return false;
        piece = {destination, source, static_cast<std::uint32_t>(size), first_unit};
        return true;
    }

    static constexpr std::uint64_t max_record = std::uint64_t{1} << 31;

private:
    bool add_in_parts(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept;

    gpu::piece *table_;
    std::uint32_t room_;
};

// Fills the kernel's parameters with the index of a table of `count` pieces. `count` must not be 0.
void index_pieces(const gpu::piece *table, std::uint32_t count, gpu::piece_table_parameters &given) noexcept;

} // namespace ferry
