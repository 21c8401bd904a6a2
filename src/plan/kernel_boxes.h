// Lays out boxes for the kernels that copy or fill them: the width of the words, the division of a row into words, and
// the assignment of words to threads.
#pragma once

#include <cstdint>

#include "copy/shape.h"
#include "kernels/names.h"
#include "plan/kernel_teams.h"

namespace ferry {

// Addresses are addresses of the kernel's device.
struct kernel_box {
    gpu::box_end destination, source;
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
    bool writes_to_host = false;
};

// The division of the rows of a box into words.
struct row_words {
    std::uint64_t word;    // bytes: 1, 2, 4, 8 or 16
    std::uint64_t windows; // maximum per row
    bool is_whole;         // every word is completely inside its row
};
struct row_places {
    std::uint64_t apart;   // differences between both ends, OR-ed together: multiples of the word
    std::uint64_t first;   // address of the first row
    std::uint64_t strides; // from row to row and slice to slice, OR-ed together
    std::uint64_t width;
};
row_words choose_words(const row_places &places, bool is_to_host) noexcept;

// Returns the box of a shape with two linear ends, at their device addresses.
kernel_box box_of(const shape &shape, std::uint64_t destination, std::uint64_t source) noexcept;

struct strided_launch {
    gpu::kernel kernel;
    std::uint32_t blocks;
    gpu::strided_parameters parameters;
};

// Returns the significant pitches of an end, OR-ed together: the row pitch if there are several rows, and the slice
// pitch if there are several slices.
constexpr std::uint64_t strides_of(const gpu::box_end &end, std::uint64_t height, std::uint64_t depth) noexcept {
    return (height > 1 ? end.row_pitch : 0) | (depth > 1 ? end.slice_pitch : 0);
}

// A launch of at most `blocks` blocks, and at most as many as have work.
strided_launch lay_out_strided(const kernel_box &box, std::uint32_t blocks) noexcept;

// A fill with a pattern of 1, 2, 4, 8 or 16 bytes, which restarts in every row. The pitches must be multiples of the
// pattern's size, but not the address.
struct kernel_fill {
    gpu::box_end destination;
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
    std::uint8_t pattern[16];
    std::uint32_t pattern_size;
};

struct fill_launch {
    gpu::kernel kernel;
    std::uint32_t blocks;
    gpu::fill_parameters parameters;
};

fill_launch lay_out_fill_kernel(const kernel_fill &fill, std::uint32_t blocks) noexcept;

// Returns the cut for `count` boxes of `bytes` in total.
team_cut cut_boxes(std::uint64_t count, std::uint64_t bytes) noexcept;

enum class pack_result { added, no_room, too_large };

// The kernel counts the windows of a box in 32 bits, and counts slightly past the last window.
constexpr std::uint64_t max_windows_of_a_box = std::uint64_t{1} << 31;

// Writes a table of gpu::box, 88 bytes each, for one launch. A box with more than max_windows_of_a_box windows
// justifies a separate launch.
class box_packer : public job_counter {
public:
    // `table` has space for `room` records.
    box_packer(gpu::box *table, std::uint32_t room, const team_cut &cut) noexcept
        : job_counter(cut), table_(table), room_(room) {}

    [[nodiscard]] pack_result add(const kernel_box &box) noexcept;

private:
    gpu::box *table_;
    std::uint32_t room_;
};

// How `walkers` threads, or warps, traverse rows of `per_row` windows, with `height` rows per slice.
gpu::windows walk_over(std::uint64_t per_row, std::uint64_t height, std::uint64_t depth,
                       std::uint64_t walkers) noexcept;

// At most `blocks`, and at most as many as `threads` threads need.
std::uint32_t blocks_with_work(std::uint32_t blocks, std::uint64_t threads) noexcept;

// Returns the divisor for any number. `by` must not be 0.
gpu::divisor divisor_of(std::uint64_t by) noexcept;

// Returns the divisor for numbers below 2^32, which is faster to compute.
constexpr std::uint64_t short_divisor_of(std::uint32_t by) noexcept { return UINT64_MAX / by; }

} // namespace ferry
