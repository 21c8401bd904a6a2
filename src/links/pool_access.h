// Access of a device to a pool, trusted only once data has come through. After the driver granted it, copies into a
// pool have silently written nothing (JuliaGPU/CUDA.jl issue 3112).
#pragma once

#include "base/host.h"
#include "links/peer_access.h"
#include "memory/pools.h"

namespace ferry {

// Gives `device` access to a pool that lies elsewhere. The device's context must be current. On failure, access stays
// as it was. An imported pool is not proven, because nothing can be allocated from it.
error give_access(const driver_table &cu, memory_pools &pools, const peer_access &peers, CUmemoryPool pool,
                  const pool_location &where, bool is_imported, int device, const allocator &memory,
                  const log_sink &log) noexcept;

} // namespace ferry
