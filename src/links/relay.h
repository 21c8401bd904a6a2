// A copy between two devices that have no access to each other's memory, through slots of pinned memory. The source's
// device fills slots while the destination's device empties others. The driver's own copy has less in flight.
#pragma once

#include "links/lanes.h"
#include "plan/plan.h"

namespace ferry {

struct relay_site {
    CUcontext context; // of the caller's stream; current
    CUstream stream;
    CUcontext source, destination; // of the ends
    int destination_device;
};

// Enqueues the copy. The caller's stream is ordered before and after all of it. FERRY_ERROR_LIMIT or no memory: nothing
// was enqueued, for want of a lane or of slots. After any other failure the stream is behind the part that was enqueued.
error run_relay(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept;

} // namespace ferry
