// Measures copies from one device to another: over the link between them, by the driver's copy through host memory, and
// by ferry's relay. Also measures copies to and from the host that the first device performs for the second over its
// own link.
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
    bool has_access; // `device` can access the memory of `peer`, verified with data
};

// Measures the pair in its own contexts, on its own streams and in its own memory, which it always releases. After a
// failure, `found` is unchanged.
error calibrate_pair(const driver_table &cu, const pair_ground &ground, pair_rates &found) noexcept;

} // namespace ferry
