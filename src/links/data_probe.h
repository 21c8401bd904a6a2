// Tests whether bytes arrive: sends some from one place to another and back, and compares them. Only then does ferry
// trust what a driver or a machine reports about access between devices.
#pragma once

#include <cstddef>

#include "base/host.h"
#include "device/contexts.h"

namespace ferry {

constexpr std::size_t probe_size = 64 << 10; // bytes, for which each end must have room

struct probe_end {
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    std::uint64_t address = 0;
    CUcontext context = nullptr; // for the call that names contexts
};

// Enqueues a copy of probe_size bytes.
using probe_move = CUresult (*)(const driver_table &cu, const probe_end &from, const probe_end &to,
                                CUstream stream) noexcept;
CUresult move_between_contexts(const driver_table &cu, const probe_end &from, const probe_end &to,
                               CUstream stream) noexcept;
CUresult move_in_current_context(const driver_table &cu, const probe_end &from, const probe_end &to,
                                 CUstream stream) noexcept;

// Copies from `far` to `near`, then the other way. Waits for the stream.
error probe_both_ways(const driver_table &cu, probe_move move, const probe_end &near, const probe_end &far,
                      CUstream stream, const allocator &memory, bool &passed) noexcept;

} // namespace ferry
