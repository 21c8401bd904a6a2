#include "plan/kernel_pieces.h"

#include <algorithm>
#include <bit>

namespace ferry {

namespace {

constexpr std::uint32_t fewest_threads = 2, most_threads = 5; // of a team, as logarithms: a warp has 32
constexpr std::uint32_t word_shift = 4;
constexpr std::uint32_t in_flight_shift = std::countr_zero(kernels::in_flight);
// Units of full warps grow with the pieces, so that large pieces do not cost many of them.
constexpr std::uint32_t largest_unit_shift = 14;
// So many units occupy every team of a large GPU several times over (132 multiprocessors of 32 warps).
constexpr std::uint64_t enough_units = std::uint64_t{1} << 15;

constexpr std::uint32_t unit_of_team(std::uint32_t team_shift) noexcept {
    return team_shift + word_shift + in_flight_shift;
}

} // namespace

piece_cut cut_pieces(std::uint64_t count, std::uint64_t bytes) noexcept {
    const std::uint64_t average = count ? bytes / count : 0;
    // The smallest team that takes an average piece at once.
    std::uint32_t team = fewest_threads;
    while (team < most_threads && std::uint64_t{1} << unit_of_team(team) < average)
        ++team;
    std::uint32_t unit = unit_of_team(team);
    while (unit < largest_unit_shift && (average >> unit) > 1 && (bytes >> unit) > 2 * enough_units)
        ++unit;
    while ((bytes >> unit) > UINT32_MAX / 4) // however much it is, units are counted in 32 bits
        ++unit;
    return {unit, team};
}

bool piece_packer::add_in_parts(std::uint64_t destination, std::uint64_t source, std::uint64_t size) noexcept {
    const piece_packer before = *this;
    while (size != 0) {
        const std::uint64_t part = std::min(size, largest_record);
        if (!add(destination, source, part)) {
            *this = before;
            return false;
        }
        destination += part;
        source += part;
        size -= part;
    }
    return true;
}

std::uint32_t piece_packer::blocks_with_work(std::uint32_t blocks) const noexcept {
    const std::uint64_t threads = units_ << cut_.team_shift;
    const std::uint64_t needed = (threads + kernels::threads_per_block - 1) / kernels::threads_per_block;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::max(blocks, 1u), std::max<std::uint64_t>(needed, 1)));
}

kernels::piece_work piece_packer::work_for(std::uint32_t blocks) const noexcept {
    const std::uint64_t teams = (std::uint64_t{blocks} * kernels::threads_per_block) >> cut_.team_shift;
    return {.count = count_,
            .units = static_cast<std::uint32_t>(units_),
            .units_per_team = static_cast<std::uint32_t>(units_ / teams),
            .teams_with_one_more = static_cast<std::uint32_t>(units_ % teams),
            .unit_shift = cut_.unit_shift,
            .team_shift = cut_.team_shift,
            // Rounded up, so that the first unit of the last of many equal pieces is not taken for one before.
            .pieces_per_unit = units_ ? ((std::uint64_t{count_} << 32) + units_ - 1) / units_ : 0};
}

} // namespace ferry
