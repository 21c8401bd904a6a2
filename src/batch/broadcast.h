// Copies of a batch that share their source and go to several devices, planned as one: the bytes come over the host
// links of all these devices, or from one device, and then travel between them.
#pragma once

#include "batch/batch.h"
#include "batch/request.h"

namespace ferry {

// Enqueues one of the broadcasts: the stream is ordered before and after all of it. Where a device cannot take its part
// because its context is dead, the others get theirs, and the status and index of that part are returned. If nothing
// else is left to try, the copies are made one by one. `was_idle`: the stream, before the batch.
error run_broadcast(ferry_instance &instance, broadcast_sets &sets, std::size_t set, const launch_site &site,
                    bool was_idle, std::uint64_t &bad_index) noexcept;

// Returns how many of the copies go to a device whose context is dead.
std::size_t count_dead(ferry_instance &instance, const broadcast_member *members, std::size_t count,
                       const launch_site &site) noexcept;

} // namespace ferry
