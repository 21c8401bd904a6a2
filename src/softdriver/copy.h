// Every copy of the driver API is one of these: two places and an extent, checked and run in one place.
#pragma once

#include "softdriver/state.h"

namespace ferry::softdriver {

struct place {
    CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
    std::uintptr_t address = 0; // where type is not ARRAY
    CUarray array = nullptr;
    std::size_t x = 0; // bytes
    std::size_t y = 0;
    std::size_t z = 0;
    std::size_t lod = 0;
    std::size_t pitch = 0;
    std::size_t height = 0;      // of the allocation, in rows
    CUcontext context = nullptr; // of peer copies
};

struct extent {
    std::size_t width = 0; // bytes
    std::size_t height = 1;
    std::size_t depth = 1;
};

struct copy_request {
    place destination;
    place source;
    extent size;
    bool peer = false;          // places are judged by their own contexts, not the current one
    bool reads_at_once = false; // a source on the host, without waiting for the stream
};

// One end of a checked copy, with all that running it needs.
struct side {
    enum class kind { pageable, pinned, host_pool, managed, device, array } memory = kind::pageable;
    int device = 0;                        // of all but pageable and pinned memory
    const context *reached_from = nullptr; // of a host pool's
    bool stream_ordered = false;
    CUdeviceptr start = 0;
    std::size_t row_pitch = 0;
    std::size_t slice_pitch = 0;
    tiled_layout tiles{}; // of array memory, with the origin below
    std::size_t x = 0;
    std::size_t y = 0;
    std::size_t z = 0;

    bool on_host() const { return memory == kind::pageable || memory == kind::pinned; }
    std::uint64_t device_bit() const { return on_host() ? 0 : std::uint64_t{1} << device; }
};

// Refuses what the driver refuses. `size` must not be empty.
side resolve(driver &cu, const place &at, const extent &size, bool peer);

// Refuses what start_copy would refuse in an empty stream.
void check_copy(driver &cu, const copy_request &asked);

// Checks and enqueues; what the caller has to wait for, or null.
operation_ptr start_copy(driver &cu, const copy_request &asked, CUstream stream, bool asynchronous);

CUresult copy(const copy_request &asked) noexcept; // the forms without Async
CUresult copy_async(const copy_request &asked, CUstream stream) noexcept;

} // namespace ferry::softdriver
