// Measures copies from one device to another: over the link between them, by the driver's bounce, and by ferry's relay.
#pragma once

#include "calibrate/calibrate.h"
#include "links/lanes.h"
#include "peer/peer_access.h"

namespace ferry {

struct pair_ground {
    device_contexts &contexts;
    pinned_memory &pinned;
    const device_facts *devices;
    const allocator &memory;
    int device, peer;
    bool has_access; // of `device` to the memory of `peer`, and data comes through
};

struct measured_pair {
    pair_rates rates;
    std::uint32_t direct_fixed_ns = 0; // 0: not measured
};

// Measures copies from `device` to `peer`, in contexts, on streams and in memory of its own, which it always releases.
// After a failure `found` is unchanged.
error calibrate_pair(const driver_table &cu, const pair_ground &ground, measured_pair &found) noexcept;

// Puts what was measured into the profile of `device`.
void put_pair(const measured_pair &pair, device_profile &profile) noexcept;

} // namespace ferry
