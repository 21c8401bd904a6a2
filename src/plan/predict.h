// The cost model: predicts the time of a copy from the device's profile. Used only by the planner.
#pragma once

#include "plan/plan.h"

namespace ferry {

// A kernel must be predicted to be faster than the driver by this factor: predictions are not more accurate, and
// kernels occupy SMs.
constexpr double kernel_margin = 1.05;

// The time that a staged copy loses if the threads sleep when it begins. To the device, the driver's call loses about
// as much after a pause, because its source is no longer in the processor's cache. From the device, a copy of 1 MiB
// took 135 to 150 us after 0.4 ms and 200 to 235 us after 10 ms, and the driver's call 114 and 140 us (H200,
// 2026-11-30). The driver's call blocks the caller for all its time. So for an asynchronous copy the loss counts only
// after a pause in which the processors fall asleep too, because then the call for a staged copy takes as long.
constexpr double ns_to_wake(copy_direction direction, copy_form form, std::uint64_t idle_ns) noexcept {
    const std::uint64_t awake_ns = form == copy_form::synchronous ? 50'000 : 2'000'000;
    return direction == copy_direction::device_to_host && idle_ns > awake_ns ? 60'000 : 0;
}

// The properties of a copy that determine its speed. A row is a run of bytes without gaps.
struct row_profile {
    std::uint64_t width = 1, count = 1; // bytes of a row, number of rows
    std::uint64_t source_pitch = 0;     // row pitch, if that end has gaps
    std::uint64_t destination_pitch = 0;
    gaps side = gaps::both; // the ends with gaps, unless it is contiguous
    bool is_line = false;
    bool has_array = false;
    bool has_parts = false;             // some words are only partly in their row
    unsigned access = 1;                // size in bytes of the words that kernels copy
    double words = 1;                   // bytes of all accessed words, per byte of the row
    std::uint64_t engine_alignment = 1; // the largest power of two that divides width and pitches
    std::uint64_t host_alignment = 1;   // same, including the address in host memory; at most a sector

    double bytes() const noexcept { return static_cast<double>(width) * static_cast<double>(count); }
};
row_profile rows_of(const shape &shape) noexcept;

// Returns the rate of a kernel that reads arrays in words of `access` bytes.
std::uint32_t array_kernel_rate(const device_profile &profile, unsigned access) noexcept;

// Returns the number of blocks of a kernel copy. A copy from an array gets as many blocks as have work, so that blocks
// that run at the same time read adjacent bytes. This reads 512^3 texels of 4 bytes at 2010 GB/s, whereas 264 blocks
// reach 1890 GB/s (H200).
unsigned blocks_for(const direction_profile &facts, copy_direction direction, double bytes, unsigned access,
                    unsigned max_blocks, bool of_array = false) noexcept;

// Returns the payload bytes per microsecond for rows of this width.
double rate_of(const std::uint32_t (&rates)[width_classes], std::uint64_t width, double line_rate) noexcept;

// Returns the nanoseconds per row, in a copy large enough to hide the fixed time.
double kernel_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows,
                     unsigned blocks) noexcept;
double driver_row_ns(const direction_profile &facts, copy_direction direction, const row_profile &rows) noexcept;

// Within a device, the driver copies rows by one of two methods. Copies of many rows use the method whose fixed time is
// many_rows_fixed_ns.
constexpr std::uint64_t many_rows = 65536;
bool goes_by_many_rows(copy_direction direction, const row_profile &rows) noexcept;

} // namespace ferry
