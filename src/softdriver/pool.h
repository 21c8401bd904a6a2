// Pools of stream-ordered memory: how much memory a pool has reserved from its device or from the host, and how much of
// it is in use.
#pragma once

#include "softdriver/heap.h"
#include "softdriver/operations.h"
#include "softdriver/sharing.h"

#include <map>
#include <vector>

namespace ferry::softdriver {

// The frees that precede some work: for each stream id, the number of that stream's frees.
using frees_before = std::map<std::uint64_t, std::uint64_t>;
void merge(frees_before &into, const frees_before &more);

// Memory that was freed in stream order. The pool reuses it for work that is ordered after the free.
struct freed_block {
    std::uintptr_t address = 0;
    std::size_t size = 0;
    operation_ptr freed;
    std::uint64_t stream = 0; // the free is the `number`th of this stream
    std::uint64_t number = 0;
};

struct high_water {
    std::uint64_t now = 0;
    std::uint64_t high = 0;
    void add(std::uint64_t bytes) {
        now += bytes;
        if (now > high) high = now;
    }
};

struct pool {
    // A pool reserves memory in steps of this size on an H200 (docs/driver.md).
    static constexpr std::size_t step = std::size_t{32} << 20;

    CUmemoryPool handle = nullptr;
    CUmemLocation location{};
    CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
    std::size_t largest = 0; // 0: no limit
    bool is_default = false;
    bool destroyed = false;            // but kept while its memory is in use
    std::uint64_t accessible_from = 0; // bit per device

    int follow_event_dependencies = 1;
    int allow_opportunistic = 1;
    int allow_internal_dependencies = 1;
    std::uint64_t release_threshold = 0;

    heap memory; // reserved and unused
    std::vector<freed_block> freed;
    high_water reserved;
    high_water used;
    std::size_t live = 0; // number of allocations

    std::optional<std::uint32_t> shared_at;   // the slot that publishes it to other processes
    std::shared_ptr<shared_process> exporter; // only for imported pools, like the serial
    std::uint64_t exporter_serial = 0;

    void take_into_use(std::size_t bytes) {
        used.add(bytes);
        ++live;
    }
    void leave_use(std::size_t bytes) {
        used.now -= bytes;
        --live;
    }
    // Exportable pools also release memory, although the manual states otherwise (seen on CUDA 13.0, H200).
    bool gives_back() const { return !exporter; }

    bool on_device() const { return location.type == CU_MEM_LOCATION_TYPE_DEVICE; }
};

// The default and current pools of a device, of the host or of one of its NUMA nodes.
struct pool_place {
    pool *standard = nullptr;
    pool *current = nullptr;
};

} // namespace ferry::softdriver
