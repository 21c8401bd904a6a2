// Access of a device to a pool, verified with data. After the driver had granted access, copies into a pool have
// silently written nothing (JuliaGPU/CUDA.jl issue 3112).
#pragma once

#include "base/host.h"
#include "links/peer_access.h"
#include "memory/pools.h"

namespace ferry {

// Gives `device` access to a pool at another location. The device's context must be current. On failure, access stays
// unchanged. Access to an imported pool is not verified, because nothing can be allocated from it.
error give_access(const driver_table &cu, memory_pools &pools, const peer_access &peers, CUmemoryPool pool,
                  const pool_location &where, bool is_imported, int device, const allocator &memory,
                  const log_sink &log) noexcept;

} // namespace ferry
