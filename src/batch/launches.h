// Launches the kernels that copy many pieces or boxes of a batch.
#pragma once

#include "batch/steps.h"
#include "submit/instance.h"

namespace ferry {

// Copies the pieces of the step, with the site's table if it has one.
error run_piece_kernel(const batch_submission &of, const batch_step &step) noexcept;
// Copies the boxes of the step.
error run_box_kernel(const batch_submission &of, const batch_steps &steps, const batch_step &step) noexcept;

// records_of returns the maximum number of table records that a group of pieces needs; pack_group packs them. `packed`
// must have space for the records. Returns false if the counters of the table cannot represent the group.
std::uint64_t records_of(const group_facts &group) noexcept;
[[nodiscard]] bool pack_group(const batch_request &request, int group, piece_packer &packed) noexcept;

// Frees a block of the instance's tables once the work enqueued so far has completed on the stream. Waits for that work
// only if the block cannot be freed in stream order.
error free_table(ferry_instance &instance, CUstream stream, void *table) noexcept;

} // namespace ferry
