// Copies of a batch that share their source and have destinations on several devices, planned together: the bytes
// arrive over the host links of all these devices, or from one device, and are then exchanged between them.
#pragma once

#include "batch/batch.h"
#include "batch/request.h"

namespace ferry {

struct lane; // links/lanes.h

// Enqueues one of the broadcasts: the stream is ordered before and after all of it. If a device cannot take part
// because its context is dead, the other devices get their bytes, and the status and index of the dead device's copy
// are returned. As a last resort, the copies are performed one by one. `was_idle`: whether the stream was idle before
// the batch. `before`: marks the work of the stream that the broadcast waits for; null: all earlier work.
error run_broadcast(ferry_instance &instance, broadcast_sets &sets, std::size_t set, const launch_site &site,
                    bool was_idle, lane *before, std::uint64_t &bad_index) noexcept;

// Returns how many of the copies have a destination on a device whose context is dead.
std::size_t count_dead(ferry_instance &instance, const broadcast_member *members, std::size_t count,
                       const launch_site &site) noexcept;

} // namespace ferry
