#include "plan/kernel_teams.h"

#include <algorithm>

#include "base/rounding.h"

namespace ferry {

namespace {

constexpr std::uint32_t min_team = 2, max_team = 5; // log2 of the number of threads: a warp has 32
// Enough units to occupy every team of a large GPU several times over (132 SMs of 32 warps).
constexpr std::uint64_t enough_units = std::uint64_t{1} << 16;

} // namespace

team_cut cut_for(std::uint64_t count, std::uint64_t size_of_all, std::uint32_t per_thread_shift,
                 std::uint32_t max_unit_shift) noexcept {
    const std::uint64_t average = count ? size_of_all / count : 0;
    // The smallest team that performs an average job in one step.
    std::uint32_t team = min_team;
    while (team < max_team && std::uint64_t{1} << (team + per_thread_shift) < average)
        ++team;
    // Units are larger if there are many units, so that large jobs do not have too many of them.
    std::uint32_t unit = team + per_thread_shift;
    while (unit < max_unit_shift && (average >> unit) > 1 && (size_of_all >> unit) > enough_units)
        ++unit;
    while ((size_of_all >> unit) > UINT32_MAX / 4) // units are counted in 32 bits for any total size
        ++unit;
    return {unit, team};
}

std::uint32_t job_counter::blocks_with_work(std::uint32_t blocks) const noexcept {
    const std::uint64_t threads = units_ << cut_.team_shift;
    const std::uint64_t needed = divide_up(threads, gpu::threads_per_block);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, std::max<std::uint64_t>(needed, 1)));
}

gpu::team_work job_counter::work_for(std::uint32_t blocks) const noexcept {
    const std::uint64_t teams = (std::uint64_t{blocks} * gpu::threads_per_block) >> cut_.team_shift;
    return {.count = count_,
            .units = static_cast<std::uint32_t>(units_),
            .units_per_team = static_cast<std::uint32_t>(units_ / teams),
            .teams_with_one_more = static_cast<std::uint32_t>(units_ % teams),
            .unit_shift = cut_.unit_shift,
            .team_shift = cut_.team_shift,
            // Rounded up. Otherwise, among many equal jobs, the guess for the first unit of the last job could be the
            // job before.
            .jobs_per_unit = units_ ? ((std::uint64_t{count_} << 32) + units_ - 1) / units_ : 0};
}

} // namespace ferry
