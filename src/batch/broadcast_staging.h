// A broadcast from pageable memory by one staged copy: worker threads fill each slot once, for all devices.
#pragma once

#include "batch/broadcast_lanes.h"

namespace ferry {

// Enqueues the staged copy for the targets `of`, which form an island, and sets `is_made`. Leaves `is_made` false if
// the bytes should be copied by another route. Changes the order of `of`. `was_idle`: the caller's stream, before the
// batch. `is_idle`: the caller's stream at the beginning of this broadcast; set to false if a part may have been
// enqueued.
error enqueue_staged(ferry_instance &instance, const launch_site &site, const broadcast_targets &to,
                     broadcast_lanes &lanes, unsigned *of, unsigned count, bool was_idle, bool &is_idle,
                     std::uint64_t &bad_index, bool &is_made) noexcept;

} // namespace ferry
