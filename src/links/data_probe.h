// Tests whether bytes arrive: sends test data from one place to another and back, and compares it. ferry relies on the
// access between devices that a driver or machine reports only after this test.
#pragma once

#include <cstddef>

#include "base/host.h"
#include "device/contexts.h"

namespace ferry {

constexpr std::size_t probe_size = 64 << 10; // bytes for which each end must have space

struct probe_end {
    CUmemorytype type = CU_MEMORYTYPE_HOST;
    std::uint64_t address = 0;
    CUcontext context = nullptr; // for the call that names contexts
};

// Enqueues a copy of probe_size bytes.
using probe_move = call_result (*)(const driver_table &cu, const probe_end &from, const probe_end &to,
                                   CUstream stream) noexcept;
call_result move_between_contexts(const driver_table &cu, const probe_end &from, const probe_end &to,
                                  CUstream stream) noexcept;
call_result move_in_current_context(const driver_table &cu, const probe_end &from, const probe_end &to,
                                    CUstream stream) noexcept;

// Copies from `far` to `near`, then in the other direction. Waits for the stream.
error probe_both_ways(const driver_table &cu, probe_move move, const probe_end &near, const probe_end &far,
                      CUstream stream, const allocator &memory, bool &passed) noexcept;

} // namespace ferry
