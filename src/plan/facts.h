// The facts about a copy, in addition to its shape, that the rules of the routes use. Filled in before the route is
// chosen, and not needed afterwards.
#pragma once

#include "plan/plan.h"

namespace ferry {

// What kernels of the context can do.
struct kernel_facts {
    obstacle why_not = obstacle::not_loaded;
    // Why kernels cannot access an end. `managed`: kernels can access the end, which is managed memory.
    obstacle source_reach = obstacle::not_known;
    obstacle destination_reach = obstacle::not_known;
    // The device uses the host's page tables: it reads and writes pageable memory as fast as pinned memory.
    bool reaches_pageable = false;
};

struct staging_facts {
    obstacle why_not = obstacle::no_staging; // why the instance cannot stage
    obstacle reach = obstacle::not_known;    // why staging kernels cannot access the device's end
    bool is_source_slow = false;             // a file that is not in memory
    bool has_stream_buffers = false;         // there is device memory in the order of the stream
    bool has_stream_waits = false;           // copy-engine copies on the stream can replace the staging kernel
    std::uint16_t threads = 0;
    std::uint64_t slot_size = std::uint64_t{512} << 10; // bytes, of the staging buffer
    // The recent delays of staged copies: of the threads, if the system runs other threads, and of the kernel, if other
    // kernels occupy the device.
    std::uint64_t thread_delay_ns = 0, start_delay_ns = 0;
    std::uint64_t idle_ns = 0; // time in which the threads had no work; 0 while they have some
};

// What devices and links other than the copy's own can do.
struct link_facts {
    // Why the copy cannot be relayed. `direct_access`: the copy can be relayed, but one of the two devices has access
    // to the other's end.
    obstacle relay = obstacle::not_between_devices;
    pair_rates pair = {}; // for a copy between devices
    // Why the copy cannot use several links, and how many it can use including its own.
    obstacle multilink = obstacle::forbidden;
    std::uint16_t count = 1;
    std::uint16_t helper_blocks = 0; // maximum per helper; 0: no maximum
    double own_share = 1;            // share of this device's own link in the bandwidth of all these links
};

struct plan_facts {
    call_facts call = {};
    const device_profile *profile = nullptr; // of the context's device
    kernel_facts kernels = {};
    staging_facts staging = {};
    link_facts links = {};
};

} // namespace ferry
