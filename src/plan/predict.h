// How long a device takes for a copy, by what it was measured to do. For the planner's own use.
#pragma once

#include "plan/plan.h"

namespace ferry {

// A kernel must be predicted that much faster than the driver: predictions are no better, and kernels cost
// multiprocessors.
constexpr double kernel_margin = 1.05;

// What decides the speed of one copy: its rows as far as they are without gaps.
struct row_profile {
    std::uint64_t width = 1, count = 1; // bytes of a row, rows in all
    std::uint64_t source_pitch = 0;     // from row to row, where that side has gaps
    std::uint64_t destination_pitch = 0;
    gaps side = gaps::both; // unless it is a line
    bool is_line = false;
    bool has_array = false;
    bool has_parts = false;             // some of its words lie in their rows in part
    unsigned access = 1;                // bytes: the words that kernels copy
    double words = 1;                   // bytes of all words that are touched, for each of the row's
    std::uint64_t engine_alignment = 1; // what divides its width and its pitches, a power of two
    std::uint64_t host_alignment = 1;   // likewise, and where it lies in the host's memory; at most a sector's

    double bytes() const noexcept { return static_cast<double>(width) * static_cast<double>(count); }
};
row_profile rows_of(const shape &shape) noexcept;

// What a kernel reaches that reads arrays in words of so many bytes.
std::uint32_t array_kernel_rate(const device_profile &profile, unsigned access) noexcept;

// The blocks that a kernel copy is given. One out of an array has as many as there is work for: then those that run
// together read what lies together. 512^3 texels of 4 bytes come at 2010 GB/s so and with 264 blocks at 1890 (H200).
unsigned blocks_for(const direction_profile &facts, copy_direction direction, double bytes, unsigned access,
                    unsigned most_blocks, bool of_array = false) noexcept;

// Payload bytes per microsecond of rows of this width.
double rate_of(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept;

// Nanoseconds of a row, in a copy large enough to hide the fixed time.
double kernel_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows,
                     unsigned blocks) noexcept;
double driver_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows) noexcept;

// Within a device the driver copies rows in one of two ways: this is the one of many_rows_fixed_ns.
constexpr std::uint64_t many_rows = 65536;
bool goes_by_many_rows(copy_direction direction, const row_profile &rows) noexcept;

} // namespace ferry
