// Whether bytes arrive: sends some from one place to another and back, and compares them. What a driver or a machine
// says of access between devices is trusted only after that.
#pragma once

#include <cstddef>

#include "base/host.h"
#include "device/contexts.h"

namespace ferry {

constexpr std::size_t probe_size = 64 << 10; // bytes that each end must have room for

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

// From `far` to `near`, then the other way. Waits for the stream.
error probe_both_ways(const driver_table &cu, probe_move move, const probe_end &near, const probe_end &far,
                      CUstream stream, const allocator &memory, bool &passed) noexcept;

} // namespace ferry
