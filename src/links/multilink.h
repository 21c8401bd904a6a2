// Copies between host memory and one device over the host links of several: kernels on other devices, the helpers,
// move a part of the bytes over their own links and access the device's memory as peers.
#pragma once

#include <atomic>
#include <mutex>

#include "device/kernels.h"
#include "links/lanes.h"
#include "plan/plan.h"

namespace ferry {

// The maximum number of blocks on each device whose link a copy uses. Reads of host memory need more blocks than
// writes: two H100 with 16 and 24 blocks move 1 GiB of pinned memory at 101.9 and 104.1 GB/s to a device, and at 105.3
// and 106.0 to the host.
constexpr std::uint16_t link_blocks_to_device = 24, link_blocks_to_host = 16;
inline std::uint16_t blocks_of_a_link(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pinned ? link_blocks_to_device : link_blocks_to_host;
}

// The counters of one copy. They stay in use until all launches have ended, possibly long after the copy.
struct link_record {
    std::uint64_t counters = 0; // device address of gpu::link_counters
    CUevent start = nullptr;
    std::uint64_t *passed = nullptr; // per launch: the number of the copy whose launch has ended
    std::uint64_t passed_address = 0;
    std::uint64_t number = 0;       // of the latest copy
    std::uint64_t launched = 0;     // bit l: launch l, for the latest copy
    gpu::link_counters before = {}; // the counter values after that copy
    std::atomic<bool> is_taken = false;
};

// The resources for copies to and from one device.
struct link_station {
    static constexpr unsigned max_records = 32;
    static constexpr std::uint64_t counters_size = max_records * sizeof(gpu::link_counters);

    int device = 0;
    context_name owner;     // of the counters
    CUdeviceptr memory = 0; // counted in the budget of the device
    staged_memory words;
    link_record records[max_records];
};

// One of the links that a copy can use. The first is the link of the copy's own device.
struct link_way {
    int device;
    CUcontext context;
    std::uint64_t destination, source; // as addresses for kernels of that context
};
struct link_ways {
    link_way all[gpu::max_links];
    unsigned count = 0;   // 0 if only the driver's own copy is possible
    double own_share = 1; // the first link's share of the total bandwidth
    obstacle why_not = obstacle::none;
    std::uint32_t max_blocks = 0; // per helper
};

// How the devices share a copy of pinned memory: the device's copy engine copies the first bytes, and kernels claim the
// rest chunk by chunk.
struct link_shares {
    std::uint32_t of_helper;        // blocks per helper
    std::uint64_t chunk, by_engine; // bytes
};
link_shares share_links(const shape &shape, unsigned links, double own_share, std::uint32_t blocks,
                        std::uint32_t max_of_helper, bool may_use_engine) noexcept;

class link_helpers {
public:
    link_helpers(const driver_table &cu, device_contexts &contexts, kernel_set &kernels, pinned_memory &pinned,
                 const device_facts *devices, lane_set &lanes, budget *device_memory, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), kernels_(kernels), pinned_(pinned), devices_(devices), lanes_(lanes),
          device_memory_(device_memory), memory_(memory) {}
    ~link_helpers();
    link_helpers(const link_helpers &) = delete;
    link_helpers &operator=(const link_helpers &) = delete;

    // Allows copies of `device` to use these helpers' links, with at most `max_blocks` blocks on each helper; 0: the
    // fastest number. Loads the kernels and allocates the counters. The helpers must have access to the device's
    // memory.
    error set(int device, std::uint64_t helpers, std::uint32_t max_blocks) noexcept;

    // Finds the links that a copy can use in the current context `context` of `device`.
    error find_ways(const shape &shape, int device, CUcontext context, link_ways &found) noexcept;
    // Enqueues the copy. If it returns FERRY_ERROR_LIMIT or runs out of memory, nothing was enqueued. Without
    // `may_make`, helpers for which a lane must be created do not help.
    error run(const shape &shape, const link_ways &ways, std::uint32_t blocks, bool may_use_engine, bool may_make,
              CUstream stream) noexcept;

    // Waits for all work that accesses the counters in the context, which is about to end.
    void retire(CUcontext context) noexcept;
    void forget(CUcontext context) noexcept;
    // No other calls may follow.
    void close() noexcept;

    // How often the owner's kernel checks for progress, 100 ns apart or more, before it considers a chunk lost.
    std::uint64_t patience = std::uint64_t{1} << 24;

private:
    error prepare(int device) noexcept;
    error fill(link_station &made, int device) noexcept;
    void release(link_station &one) noexcept;
    void drop(link_station &one) noexcept;
    void forget_memory(link_station &one) noexcept; // the counters are freed
    link_record *take_record(int device) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    kernel_set &kernels_;
    pinned_memory &pinned_;
    const device_facts *devices_;
    lane_set &lanes_;
    budget *const device_memory_; // an array, by device
    const allocator &memory_;
    std::mutex mutex_; // guards the set-up
    std::atomic<std::uint64_t> helpers_[device_contexts::max_devices] = {};
    std::atomic<std::uint32_t> max_blocks_[device_contexts::max_devices] = {};
    std::atomic<link_station *> stations_[device_contexts::max_devices] = {};
};

} // namespace ferry
