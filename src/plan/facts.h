// What the rules of the routes know of a copy beside its shape. Filled before the route is chosen, and not needed
// afterwards.
#pragma once

#include "plan/plan.h"

namespace ferry {

// What kernels of the context can do.
struct kernel_facts {
    obstacle why_not = obstacle::not_loaded;
    // Why they do not reach an end. `managed`: they do reach it, and it is managed.
    obstacle source_reach = obstacle::not_known;
    obstacle destination_reach = obstacle::not_known;
    // The device uses the host's page tables: it reads and writes pageable memory as fast as pinned memory.
    bool reaches_pageable = false;
};

struct staging_facts {
    obstacle why_not = obstacle::no_staging; // why the instance cannot stage
    obstacle reach = obstacle::not_known;    // why staging kernels do not reach the device's end
    bool has_stream_waits = false;           // copies on the stream can replace the staging kernel
    std::uint16_t threads = 0;
    std::uint64_t slot_size = std::uint64_t{512} << 10; // bytes, of the staging buffer
    // How late recent staged copies were: the threads, where the system runs others, and the kernel, where others fill
    // the device.
    std::uint64_t thread_delay_ns = 0, start_delay_ns = 0;
};

// What the devices and links beside the copy's own can do.
struct link_facts {
    // Why the copy cannot be relayed. `direct_access`: it can, but one of the two devices has access to the other's end.
    obstacle relay = obstacle::not_between_devices;
    pair_rates pair = {}; // of the two devices, where the copy is between devices
    // Why the copy cannot take several links, and how many it can take with its own.
    obstacle multilink = obstacle::forbidden;
    std::uint16_t count = 1;
    std::uint16_t helper_blocks = 0; // the maximum of each helper; 0: none is set
    double own_share = 1;            // the part of this device's own link in what all these links carry
};

struct plan_facts {
    call_facts call = {};
    const device_profile *profile = nullptr; // of the context's device
    kernel_facts kernels = {};
    staging_facts staging = {};
    link_facts links = {};
};

} // namespace ferry
