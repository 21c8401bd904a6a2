// The driver's batch calls: many lines, or many boxes, by one call. They take neither the legacy stream, under either
// of its names, nor a stream under capture. Copies in one call have no order among themselves, and each source is read
// in stream order.
#pragma once

#include "copy/batch.h"
#include "driver/table.h"

namespace ferry {

bool has_line_batches(const driver_table &cu) noexcept;
bool has_box_batches(const driver_table &cu) noexcept;

// The lines in the form that the driver takes: one array for each parameter.
struct line_batch {
    explicit line_batch(const allocator &memory) noexcept : destinations(memory), sources(memory), sizes(memory) {}
    growing<CUdeviceptr> destinations, sources;
    growing<std::size_t> sizes;

    void clear() noexcept;
    [[nodiscard]] bool append(const batch_piece *pieces, std::size_t count) noexcept;
};

// Copies `count` lines from `first` on. The stream's context must be current.
CUresult run_line_batch(const driver_table &cu, const line_batch &lines, std::size_t first, std::size_t count,
                        CUstream stream) noexcept;

// Returns false where the box cannot be expressed in whole elements of its array. `element` is 1 between two linear
// ends.
[[nodiscard]] bool lower(const shape &box, std::uint64_t element, CUDA_MEMCPY3D_BATCH_OP &call) noexcept;

CUresult run_box_batch(const driver_table &cu, const CUDA_MEMCPY3D_BATCH_OP *boxes, std::size_t count,
                       CUstream stream) noexcept;

} // namespace ferry
