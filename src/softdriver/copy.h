// The common form of all copies in the driver API: two places and an extent, checked and run by the same code.
#pragma once

#include "softdriver/state.h"

#include <optional>

namespace ferry::softdriver {

struct place {
    CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
    std::uintptr_t address = 0; // unless type is ARRAY
    CUarray array = nullptr;
    std::size_t x = 0; // bytes
    std::size_t y = 0;
    std::size_t z = 0;
    std::size_t lod = 0;
    std::size_t pitch = 0;
    std::size_t height = 0;      // of the allocation, in rows
    CUcontext context = nullptr; // peer copies only

    bool operator==(const place &) const = default;
};

struct extent {
    std::size_t width = 0; // bytes
    std::size_t height = 1;
    std::size_t depth = 1;

    bool operator==(const extent &) const = default;
};

struct copy_request {
    place destination;
    place source;
    extent size;
    bool peer = false;                             // checks each place against its own context
    std::optional<CUmemcpySrcAccessOrder> order{}; // for copies in batches
};

// One end of a checked copy, with everything needed to run the copy.
struct side {
    enum class kind { pageable, pinned, host_pool, managed, device, array } memory = kind::pageable;
    int device = 0;                        // unused for pageable and pinned memory
    const context *reached_from = nullptr; // host pools only
    bool stream_ordered = false;
    CUdeviceptr start = 0;
    std::size_t row_pitch = 0;
    std::size_t slice_pitch = 0;
    tiled_layout tiles{}; // arrays only, as is the origin below
    std::size_t x = 0;
    std::size_t y = 0;
    std::size_t z = 0;

    bool on_host() const { return memory == kind::pageable || memory == kind::pinned; }
    std::uint64_t device_bit() const { return on_host() ? 0 : std::uint64_t{1} << device; }
};

// Checks one end of a copy and rejects what the real driver rejects. `size` must not be empty.
side resolve(driver &cu, const place &at, const extent &size, bool peer);

// Rejects what start_copy would reject on an idle stream.
void check_copy(driver &cu, const copy_request &asked);

// Checks and enqueues a copy. Returns the operation that the caller must wait for, or null.
operation_ptr start_copy(driver &cu, const copy_request &asked, CUstream stream, bool asynchronous);

// Checks a copy for a node of a graph, which must copy something.
graph_node copy_in_graph(driver &cu, const copy_request &asked);

copy_request lower(const CUDA_MEMCPY3D &described);

// The same for a fill, which needs access from a context.
graph_node fill_in_graph(driver &cu, const CUDA_MEMSET_NODE_PARAMS &asked, const context &from);

CUresult copy(const copy_request &asked) noexcept; // for entry points without Async
CUresult copy_async(const copy_request &asked, CUstream stream) noexcept;

} // namespace ferry::softdriver
