// Distributes many jobs over the teams of threads of one launch.
#pragma once

#include <cstdint>

#include "kernels/parameters.h"

namespace ferry {

// A unit is the work that a team performs with all its accesses in flight at the same time, or a multiple of it.
struct team_cut {
    std::uint32_t unit_shift, team_shift; // log2 of the size of a unit, and of the threads per team
};

// Chooses the cut for `count` jobs of `size_of_all` in total. Sizes are in bytes or windows, like units. A thread has
// 2^per_thread_shift of them in flight at the same time.
team_cut cut_for(std::uint64_t count, std::uint64_t size_of_all, std::uint32_t per_thread_shift,
                 std::uint32_t max_unit_shift) noexcept;

// Numbers the units of all jobs of one launch consecutively.
class job_counter {
public:
    explicit job_counter(const team_cut &cut) noexcept : cut_(cut) {}

    std::uint32_t count() const noexcept { return count_; }
    bool empty() const noexcept { return count_ == 0; }

    // Returns the number of blocks that have work, at most `blocks`.
    std::uint32_t blocks_with_work(std::uint32_t blocks) const noexcept;
    // Returns the work of a launch of exactly `blocks` blocks.
    gpu::team_work work_for(std::uint32_t blocks) const noexcept;

protected:
    // Adds a job of `size`. Returns false if its units do not fit the 32-bit count.
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
