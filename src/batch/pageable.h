// The copies of a batch between pageable memory and the context's device: those of one direction go by one staged copy.
#pragma once

#include "batch/request.h"
#include "plan/pageable_pieces.h"
#include "submit/instance.h"

namespace ferry {

// Decides whether these copies may be staged at all, and gathers them if so. Sets the ways of their pieces and boxes.
// Without memory to gather them each takes a call of its own. Part of choose_batch_routes.
void plan_pageable(ferry_instance &instance, batch_request &request) noexcept;

// Whether a submission stages them. `is_earlier_work_done`: earlier work of the program on the stream is complete.
bool takes_staging(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                   const launch_site &site, bool is_earlier_work_done) noexcept;

// The predicted times of these copies, staged together and by a call each.
pageable_forecast predict_pageable(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                                   const launch_site &site) noexcept;

// Enqueues the staged copy. `progress`: the caller will help until the copy is done; may be null.
error run_pageable(ferry_instance &instance, const pageable_copies &of, const batch_request &request,
                   const launch_site &site, bool is_earlier_work_done, staged_progress *progress) noexcept;

} // namespace ferry
