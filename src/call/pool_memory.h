// Stream-ordered memory. What succeeds on a named stream is one driver call: these calls take half a microsecond, and why
// one failed is asked afterwards. Nobody is told more than their status.
#pragma once

#include "call/instance.h"

namespace ferry {

// From the current pool of the device.
std::int32_t allocate_on_stream(ferry_instance &instance, std::int32_t device, std::uint64_t size, CUstream stream,
                                std::uint64_t &address) noexcept;
std::int32_t allocate_from_pool(ferry_instance &instance, CUmemoryPool pool, std::uint64_t size, CUstream stream,
                                std::uint64_t &address) noexcept;
std::int32_t free_on_stream(ferry_instance &instance, std::uint64_t address, CUstream stream) noexcept;

} // namespace ferry
