// The driver's batch calls: many contiguous copies, or many boxes, in one call. These calls support neither the legacy
// stream, under either of its names, nor a stream under capture. The copies of one call are unordered, and each source
// is read in stream order.
#pragma once

#include "copy/batch.h"
#include "driver/table.h"

namespace ferry {

bool has_line_batches(const driver_table &cu) noexcept;
bool has_box_batches(const driver_table &cu) noexcept;

// Contiguous copies in the form that the driver expects: one array per parameter.
struct line_batch {
    explicit line_batch(const allocator &memory) noexcept : destinations(memory), sources(memory), sizes(memory) {}
    growing<CUdeviceptr> destinations, sources;
    growing<std::size_t> sizes;

    void clear() noexcept;
    [[nodiscard]] bool append(const batch_piece *pieces, std::size_t count) noexcept;
};

// Performs `count` copies, starting with `first`. The stream's context must be current.
call_result run_line_batch(const driver_table &cu, const line_batch &lines, std::size_t first, std::size_t count,
                           CUstream stream) noexcept;

// Returns false if the box cannot be expressed in whole elements of its array. `element` is 1 between two linear ends.
[[nodiscard]] bool lower(const shape &box, std::uint64_t element, CUDA_MEMCPY3D_BATCH_OP &call) noexcept;

call_result run_box_batch(const driver_table &cu, const CUDA_MEMCPY3D_BATCH_OP *boxes, std::size_t count,
                          CUstream stream) noexcept;

} // namespace ferry
