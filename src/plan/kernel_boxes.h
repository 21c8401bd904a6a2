// From a box to the parameters of the kernel that copies it: how wide the words are, how a row is cut into them, and how
// threads walk over it.
#pragma once

#include <cstdint>

#include "copy/shape.h"
#include "kernels/names.h"
#include "kernels/parameters.h"

namespace ferry {

// Addresses are those that the kernel's device has for the memory.
struct kernel_box {
    kernels::box_end destination, source;
    std::uint64_t width, height, depth; // bytes, rows, slices; none is 0
};

// Of a shape with two linear ends, which lie at these addresses for the device.
kernel_box box_of(const shape &shape, std::uint64_t destination, std::uint64_t source) noexcept;

struct strided_launch {
    kernels::kernel kernel;
    std::uint32_t blocks;
    kernels::strided_parameters parameters;
};

// With at most `blocks` blocks, and not more than there is work for.
strided_launch lay_out_strided(const kernel_box &box, std::uint32_t blocks) noexcept;

// Divides any number by `by`, which is not 0.
kernels::divisor divisor_of(std::uint64_t by) noexcept;

} // namespace ferry
