// The kernels in the forms that the driver loads: PTX for any GPU, and native code for some GPUs.
#pragma once

#include <cstdint>

namespace ferry {

// Eight bytes per number: the host of a GPU is little-endian.
extern const std::uint64_t portable_kernels[];
// For compute capabilities 8.x except Orin, and 9.0, with drivers from 12.4 on. The first number is 0 in builds without
// native code.
extern const std::uint64_t native_kernels[];

} // namespace ferry
