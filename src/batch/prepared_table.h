// The table of a prepared batch: in device memory, filled through pinned memory.
#pragma once

#include "batch/prepared.h"

namespace ferry {

// Frees the table, unless it was freed with its context. Its address may then belong to another allocation.
error free_table_of(const ferry_prepared &prepared) noexcept;
// Same, in the order of the stream and without waiting.
error defer_table_of(const ferry_prepared &prepared, CUstream stream) noexcept;

// Creates the table of the batch's planned request. Creates no table if no kernel reads one.
error make_table(ferry_prepared &prepared) noexcept;

// Writes the addresses of `request` into the table, in stream order.
error change_table(const ferry_prepared &prepared, const batch_request &request, CUstream stream) noexcept;

} // namespace ferry
