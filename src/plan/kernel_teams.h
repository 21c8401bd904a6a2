// How many jobs are shared among the teams of one launch.
#pragma once

#include <cstdint>

#include "kernels/parameters.h"

namespace ferry {

// A unit is what a team does with all its accesses under way at once, or a multiple of it.
struct team_cut {
    std::uint32_t unit_shift, team_shift; // size of a unit, threads of a team
};

// Threads for jobs of such a size, in what units are counted in; `per_thread` of it are under way at once.
team_cut cut_for(std::uint64_t count, std::uint64_t size_of_all, std::uint32_t per_thread_shift,
                 std::uint32_t largest_unit_shift) noexcept;

// Counts the units of the jobs of one launch through.
class job_counter {
public:
    explicit job_counter(const team_cut &cut) noexcept : cut_(cut) {}

    std::uint32_t count() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }

    // As many blocks as have work, at most `blocks`.
    std::uint32_t blocks_with_work(std::uint32_t blocks) const noexcept;
    // For a launch of exactly `blocks` blocks.
    kernels::team_work work_for(std::uint32_t blocks) const noexcept;

protected:
    // Notes a job of a size; false where that is more than can be counted.
    [[nodiscard]] bool note(std::uint64_t size, std::uint32_t &first_unit) noexcept {
        const std::uint64_t units = (size + (std::uint64_t{1} << cut_.unit_shift) - 1) >> cut_.unit_shift;
        if (units_ + units > UINT32_MAX) return false;
        first_unit = static_cast<std::uint32_t>(units_);
        units_ += units;
        ++count_;
        return true;
    }

private:
    team_cut cut_;
    std::uint32_t count_ = 0;
    std::uint64_t units_ = 0;
};

} // namespace ferry
