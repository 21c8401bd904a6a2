// Measures copies from one device to another: over the link between them, by the driver's bounce, and by ferry's relay;
// and copies with the host that the first device makes for the second, over its own link.
#pragma once

#include "device/kernels.h"
#include "links/lanes.h"
#include "plan/profile.h"

namespace ferry {

struct pair_ground {
    device_contexts &contexts;
    pinned_memory &pinned;
    kernel_set &kernels;
    const device_facts *devices;
    const allocator &memory;
    int device, peer;
    bool has_access; // of `device` to the memory of `peer`, and data comes through
};

// Measures the pair in contexts, on streams and in memory of its own, which it always releases. After a failure `found`
// is unchanged.
error calibrate_pair(const driver_table &cu, const pair_ground &ground, pair_rates &found) noexcept;

} // namespace ferry
