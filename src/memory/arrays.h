// Creates CUDA arrays from ferry's descriptions, describes existing arrays, and lays out arrays in buffers.
#pragma once

#include "base/status.h"
#include "driver/table.h"
#include "ferry/ferry_memory.h"

namespace ferry {

// The context of the array must be current.
error create_array(const driver_table &cu, const ferry_array_desc &desc, CUarray &array) noexcept;

// 0 levels: as many as possible. The context of the array must be current.
error create_mipmapped_array(const driver_table &cu, const ferry_array_desc &desc, std::uint32_t levels,
                             CUmipmappedArray &mipmapped) noexcept;

// Creates an array with 1 or more levels in imported memory. The context of the array must be current.
error map_mipmapped_array(const driver_table &cu, CUexternalMemory memory, std::uint64_t offset,
                          const ferry_array_desc &desc, std::uint32_t levels, CUmipmappedArray &mipmapped) noexcept;

// Returns the size of the texels on all levels in bytes, or 0 for an unknown format. 0 levels: as many as possible.
std::uint64_t array_bytes(const ferry_array_desc &desc, std::uint32_t levels) noexcept;

// Lays out the levels of an array in a buffer, at most `levels`, or all for 0. Writes `footprints` unless it is null.
error lay_out_array(const ferry_array_desc &desc, std::uint32_t levels, std::uint64_t row_alignment,
                    std::uint64_t level_alignment, ferry_level_footprint *footprints, std::uint32_t &count,
                    std::uint64_t &size) noexcept;

// Works with any current context, or without a context.
error describe_array(const driver_table &cu, CUarray array, ferry_array_desc &desc,
                     std::uint32_t &bytes_per_element) noexcept;

} // namespace ferry
