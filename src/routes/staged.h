// The functions of the staged route that are used in addition to its entry in the table.
#pragma once

#include "routes/route.h"

namespace ferry {

// Whether the step can become part of a graph. A staged copy in a graph needs a kernel, because it may run many times.
// A prepared batch that is staged by copy-engine copies may nevertheless be captured.
inline bool can_be_in_graph(const copy_plan &plan) noexcept { return !plan.by_copies || plan.blocks != 0; }

// The maximum number of threads that the copy keeps busy, apart from the caller.
inline std::uint16_t threads_for(const machine &machine, const shape &shape) noexcept {
    return shape.source.file ? machine.file_threads : machine.staging_threads;
}

// Provides the resources of an asynchronous staged copy on the device. A context of the device must be current. Without
// `may_wait`, only reports whether the resources are there.
error make_ready_to_stage(machine &machine, int device) noexcept;
bool is_ready_to_stage(machine &machine, int device, bool may_wait = true) noexcept;

// Stages a contiguous copy to several devices, over the links of some of them: see ferry::staged_copy. The plan's route
// must be staging. If it returns FERRY_ERROR_LIMIT or runs out of memory, nothing was enqueued, and another route may
// serve.
struct staged_targets {
    staged_helper helpers[max_staged_helpers];
    std::uint64_t addresses[gpu::max_copies_of_ring];
    std::uint32_t helper_count, count;
};
// `progress` may be null, except for a file.
error run_staged_broadcast(machine &machine, const copy_step &step, const copy_site &site, const staged_targets &to,
                           bool must_start_soon, staged_progress *progress) noexcept;

} // namespace ferry
