// Lays out boxes of arrays for the kernels that read them: the parameters for one box, and the table for many boxes.
#pragma once

#include "plan/kernel_boxes.h"

namespace ferry {

// A box of an array that is copied to linear memory at a device address.
struct kernel_array_box {
    gpu::box_end destination;
    std::uint64_t surface; // surface of the array in the context of the launch
    gpu::array_form form;
    std::uint64_t x, y, z;              // bytes; rows, 0 if the array has none; slices or layers
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
};

// Returns the form of an array from its number of rows and slices and whether it is layered.
gpu::array_form array_form_of(std::uint64_t rows, std::uint64_t slices, bool is_layered) noexcept;

struct array_launch {
    std::uint32_t blocks;
    gpu::array_parameters parameters;
};

// A launch of at most `blocks` blocks, and at most as many as have work. The box must be within 2^31 bytes, rows and
// slices of the array, a limit that no device's arrays exceed.
array_launch lay_out_array(const kernel_array_box &box, std::uint32_t blocks) noexcept;

// Returns the cut for `count` boxes of `bytes` in total.
team_cut cut_array_boxes(std::uint64_t count, std::uint64_t bytes) noexcept;

// Writes a table of gpu::array_box, 88 bytes each, for one launch.
class array_packer : public job_counter {
public:
    // `table` has space for `room` records.
    array_packer(gpu::array_box *table, std::uint32_t room, const team_cut &cut) noexcept
        : job_counter(cut), table_(table), room_(room) {}

    [[nodiscard]] pack_result add(const kernel_array_box &box) noexcept;

private:
    gpu::array_box *table_;
    std::uint32_t room_;
};

} // namespace ferry
