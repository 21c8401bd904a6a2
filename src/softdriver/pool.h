// Pools of stream-ordered memory: what one has taken from its device or from the host, and what of that is in use.
#pragma once

#include "softdriver/engine.h"
#include "softdriver/heap.h"
#include "softdriver/sharing.h"

#include <cuda.h>

#include <map>
#include <vector>

namespace ferry::softdriver {

// Which frees some work comes after: of each stream, by id, how many.
using frees_before = std::map<std::uint64_t, std::uint64_t>;
void merge(frees_before &into, const frees_before &more);

// Memory freed in the order of a stream, which the pool gives to work that comes after that.
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
    // What a pool takes at a time on an H200 (docs/driver.md).
    static constexpr std::size_t step = std::size_t{32} << 20;

    CUmemoryPool handle = nullptr;
    CUmemLocation location{};
    CUmemAllocationHandleType handle_types = CU_MEM_HANDLE_TYPE_NONE;
    std::size_t largest = 0; // 0: no limit of its own
    bool is_default = false;
    bool destroyed = false;            // and kept for what is still in use
    std::uint64_t accessible_from = 0; // bit per device

    int follow_event_dependencies = 1;
    int allow_opportunistic = 1;
    int allow_internal_dependencies = 1;
    std::uint64_t release_threshold = 0;

    heap memory; // what is reserved and in nobody's use
    std::vector<freed_block> freed;
    high_water reserved;
    high_water used;
    std::size_t live = 0; // allocations

    std::optional<std::uint32_t> shared_at;   // the slot that names it to others
    std::shared_ptr<shared_process> exporter; // of an imported one
    std::uint64_t exporter_serial = 0;

    void take_into_use(std::size_t bytes) {
        used.add(bytes);
        ++live;
    }
    void leave_use(std::size_t bytes) {
        used.now -= bytes;
        --live;
    }
    // One for other processes does, whatever the manual says of those (seen on CUDA 13.0, H200).
    bool gives_back() const { return !exporter; }

    bool on_device() const { return location.type == CU_MEM_LOCATION_TYPE_DEVICE; }
};

// The pools of a device, of the host or of one of its nodes.
struct pool_place {
    pool *standard = nullptr;
    pool *current = nullptr;
};

} // namespace ferry::softdriver
