// The driver's batches: many lines, or many boxes, by one call. They take no legacy stream, by whichever name, and no
// capture; the copies in one have no order, and each source is read in the order of the stream.
#pragma once

#include "copy/batch.h"
#include "driver/table.h"

namespace ferry {

bool has_line_batches(const driver_table &cu) noexcept;
bool has_box_batches(const driver_table &cu) noexcept;

// As the driver takes them: an array for each.
struct line_batch {
    explicit line_batch(const allocator &memory) noexcept : destinations(memory), sources(memory), sizes(memory) {}
    growing<CUdeviceptr> destinations, sources;
    growing<std::size_t> sizes;

    void clear() noexcept;
    [[nodiscard]] bool append(const batch_piece *pieces, std::size_t count) noexcept;
};

// Of `count` lines from `first` on. The stream's context must be current.
CUresult run_line_batch(const driver_table &cu, const line_batch &lines, std::size_t first, std::size_t count,
                        CUstream stream) noexcept;

// False where a box cannot be told in whole elements of its array. `element` is 1 between two linear ends.
[[nodiscard]] bool lower(const shape &box, std::uint64_t element, CUDA_MEMCPY3D_BATCH_OP &call) noexcept;

CUresult run_box_batch(const driver_table &cu, const CUDA_MEMCPY3D_BATCH_OP *boxes, std::size_t count,
                       CUstream stream) noexcept;

} // namespace ferry
