// The parts of an open instance that routes use: the driver, the devices, memory, threads and links.
#pragma once

#include "base/host.h"
#include "copy/shape.h"
#include "device/contexts.h"
#include "device/kernels.h"
#include "driver/library.h"
#include "driver/software_driver.h"
#include "links/multilink.h"
#include "links/peer_access.h"
#include "memory/deferred_frees.h"
#include "memory/pinned.h"
#include "memory/pinned_pool.h"
#include "memory/pools.h"
#include "memory/sharing.h"
#include "memory/stream_buffer.h"
#include "memory/surfaces.h"
#include "plan/call_options.h"
#include "plan/device_profiles.h"
#include "routes/small_uploads.h"
#include "staging/engine.h"
#include "system/code_reference.h"
#include "system/fork_mark.h"

namespace ferry {

// The driver and its devices. Fixed once the instance is open.
struct opened_driver {
    code_reference code;
    ferry::allocator allocator;
    log_sink log;
    driver_library library;   // stays closed if the entry points come from elsewhere
    software_driver software; // the same
    resolver entry_points;
    driver_table cu;
    bool found[driver_symbol_count] = {}; // parallel to driver_symbols
    copy_limits limits;
    device_facts devices[device_contexts::max_devices];
};

// The options of the instance. Fixed once the instance is open.
struct machine_settings {
    ferry_report report = {};
    bool full_checks = false;
    bool stages = false;               // pageable memory is staged where kernels can serve
    std::uint16_t staging_threads = 0; // maximum that a copy may keep busy
    std::uint16_t file_threads = 0;    // the same, for a copy that reads a file
    call_options options;              // of calls without options of their own
    std::uint64_t deferred_bytes = 0;  // maximum kept on each device; 0: a share of its memory
    processor_set staging_processors;  // on which the staging threads may run
};

// The members of the machine itself are shared by all threads, and change while the instance is open.
struct machine : opened_driver, machine_settings {
    device_contexts contexts{cu, devices};
    array_surfaces surfaces{cu, contexts, allocator}; // destroyed after the kernels that read them
    external_objects externals{cu, contexts, surfaces, allocator};
    pinned_memory pinned{cu, allocator};
    memory_pools pools{cu, devices, contexts, allocator};
    budget device_memory[device_contexts::max_devices]; // that ferry itself uses on each device
    buffer_pools buffers{cu, devices};
    ferry::sharing sharing{cu, devices, contexts, pools, allocator};
    deferred_frees deferred{cu, contexts, surfaces, externals, pinned, sharing.memory, allocator};
    kernel_set kernels{cu};
    peer_access peers{cu, devices, contexts, allocator};
    device_profiles profiles{allocator};
    address_space mappings;
    // The tables from which kernels read their pieces.
    pinned_pool tables{
        cu, contexts, pinned, allocator, {.owner = host_owner::tables}, 0, 0, pinned_pool::use::of_instance};
    // The buffers into which calling threads have read the sources of enqueued copies, and the blocks through which
    // files are copied without a kernel.
    static constexpr std::uint64_t max_read_buffer_bytes = std::uint64_t{32} << 20;
    pinned_pool read_buffers{cu,
                             contexts,
                             pinned,
                             allocator,
                             {.owner = host_owner::read_buffers},
                             0,
                             max_read_buffer_bytes,
                             pinned_pool::use::of_instance};
    small_uploads uploads;
    staging_engine staging{cu, contexts, kernels, pinned, devices, allocator};
    lane_set lanes{cu, contexts, pinned, devices, allocator};
    link_helpers links{cu, contexts, kernels, pinned, devices, lanes, device_memory, allocator};
    // Of read_buffers: contexts.changes() + 1 when its first blocks were pinned. They are not used after a change.
    std::atomic<std::uint64_t> blocks_pinned_at = 0;
    bool are_blocks_ready() const noexcept { return blocks_pinned_at == contexts.changes() + 1; }
    std::atomic<bool> is_staging_ready[device_contexts::max_devices] = {};
    ferry::fork_mark fork_mark;
};

} // namespace ferry
