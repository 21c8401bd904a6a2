// The copies of a batch between pageable memory and the context's device. One staged copy can serve all copies of one
// direction.
#pragma once

#include "batch/steps.h"
#include "submit/instance.h"

namespace ferry {

// Decides whether these copies may be staged at all, and gathers them if so. Sets the routes of their pieces and boxes.
// Without memory to gather them, each copy uses a separate call. Part of choose_batch_routes.
void plan_pageable(ferry_instance &instance, batch_request &request) noexcept;

// What one submission does with the copies of one direction.
struct staging_choice {
    bool is_staged = false;
    bool is_helped = false;      // the calling thread takes part in the staged copy until it is complete
    bool is_stream_idle = false; // the program's earlier work on the stream is complete
    std::uint16_t blocks = 0;
    std::uint64_t delay_ns = 0;                // the recent staging delay that staged_ns includes
    std::uint64_t staged_ns = 0, calls_ns = 0; // predicted times, by one staged copy and by a call for each copy
};
error choose_staging(const batch_submission &of, const pageable_copies &copies, staging_choice &choice) noexcept;

// Enqueues the staged copy of the step. `progress` is for a calling thread that takes part in the copy, otherwise null.
error run_staged_pieces(const batch_submission &of, const batch_step &step, staged_progress *progress) noexcept;

} // namespace ferry
