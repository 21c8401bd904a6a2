// How long a device takes for a copy, by what it was measured to do. For the planner's own use.
#pragma once

#include "plan/plan.h"

namespace ferry {

// A kernel must be predicted that much faster than the driver: predictions are no better, and kernels cost
// multiprocessors.
constexpr double kernel_margin = 1.05;

// What decides the speed of one copy: its rows as far as they are without gaps.
struct row_profile {
    double bytes;           // in all
    std::uint64_t width;    // of a row
    std::uint64_t pitch;    // the smallest of the ends with gaps
    gaps side = gaps::both; // unless it is a line
    bool is_line;
    unsigned access; // bytes: the widest that kernels make
};
row_profile rows_of(const shape &shape) noexcept;

// Payload bytes per microsecond of rows of this width.
double rate_of(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept;

// The blocks that a kernel copy is given.
unsigned blocks_for(const direction_profile &facts, copy_direction direction, double bytes, unsigned access,
                    unsigned most_blocks) noexcept;

double kernel_rate(const direction_profile &facts, const row_profile &rows, unsigned blocks) noexcept;
double driver_rate(const direction_profile &facts, const row_profile &rows) noexcept;

} // namespace ferry
