// Numbers the kernels for the host, and provides the name of each entry point.
#pragma once

namespace ferry::gpu {

enum class kernel : unsigned {
#define FERRY_KERNEL(name, parameters, function) name,
#include "kernels/list.inc"
#undef FERRY_KERNEL
    count
};
inline constexpr unsigned kernel_count = static_cast<unsigned>(kernel::count);

inline constexpr const char *entry_names[kernel_count] = {
#define FERRY_KERNEL(name, parameters, function) "ferry_" #name,
#include "kernels/list.inc"
#undef FERRY_KERNEL
};

} // namespace ferry::gpu
