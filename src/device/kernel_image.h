// The kernels in a form that the driver loads: PTX alone, or native code for some GPUs and PTX for the others.
#pragma once

#include <cstdint>

namespace ferry {

// Bytes, eight to a number: a GPU's host is little-endian.
extern const std::uint64_t kernel_image[];

} // namespace ferry
