// The parts of an instance that share memory, pools and events with other processes.
#pragma once

#include "memory/ipc_events.h"
#include "memory/ipc_memory.h"

namespace ferry {

struct sharing {
    sharing(const driver_table &cu, const device_facts *devices, device_contexts &contexts, memory_pools &pools,
            const allocator &allocator) noexcept
        : process(cu, devices, contexts), memory(cu, process, contexts, pools, allocator),
          events(cu, process, contexts, allocator) {}

    ipc_process process;
    ipc_memory memory;
    ipc_events events;
};

} // namespace ferry
