// Launches the kernels that copy many pieces or boxes of a batch.
#pragma once

#include "batch/steps.h"
#include "submit/instance.h"

namespace ferry {

// Copies the pieces of the step, by the site's table where there is one.
error run_piece_kernel(const batch_submission &of, const batch_step &step) noexcept;
// Copies the boxes of the step.
error run_box_kernel(const batch_submission &of, const batch_steps &steps, const batch_step &step) noexcept;

// The maximum number of table records that a group of pieces needs, and packing them. `packed` has room for the records.
// Returns false where the counters of the table cannot hold the group.
std::uint64_t records_of(const group_facts &group) noexcept;
[[nodiscard]] bool pack_group(const batch_request &request, int group, piece_packer &packed) noexcept;

// Frees a block of the instance's tables once the stream has passed the work enqueued so far. Waits for that work only
// where the block cannot be freed in stream order.
error free_table(ferry_instance &instance, CUstream stream, void *table) noexcept;

} // namespace ferry
