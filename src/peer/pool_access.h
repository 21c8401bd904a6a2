// Access of a device to a pool, trusted only once data has come through: after the driver said yes to it, copies into a
// pool have silently written nothing (JuliaGPU/CUDA.jl issue 3112).
#pragma once

#include "base/host.h"
#include "memory/pools.h"
#include "peer/peer_access.h"

namespace ferry {

// Gives `device` access to a pool that lies elsewhere than on it. Its context must be current. What fails leaves access
// as it was. A pool that is imported gives nothing to prove it by.
error give_access(const driver_table &cu, memory_pools &pools, const peer_access &peers, CUmemoryPool pool,
                  const pool_location &where, bool is_imported, int device, const allocator &memory,
                  const log_sink &log) noexcept;

} // namespace ferry
