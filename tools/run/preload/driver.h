// The program's driver, and ferry on top of it. ferry is opened by the first call that it may serve.
#pragma once

#include <ferry/ferry.h>

#include "driver/table.h"

namespace ferry_run {

// Driver functions that are called before ferry is needed.
struct driver {
    int device_count = 0;
    bool is_software = false; // ferry's software driver, whose times predict nothing for a GPU
    PFN_cuCtxGetCurrent_v4000 cuCtxGetCurrent = nullptr;
    PFN_cuCtxGetDevice_v2000 cuCtxGetDevice = nullptr;
    PFN_cuCtxGetId_v12000 cuCtxGetId = nullptr;
    PFN_cuCtxPopCurrent_v4000 cuCtxPopCurrent = nullptr;
    PFN_cuCtxPushCurrent_v4000 cuCtxPushCurrent = nullptr;
    PFN_cuDeviceGetCount_v2000 cuDeviceGetCount = nullptr;
    PFN_cuPointerGetAttribute_v4000 cuPointerGetAttribute = nullptr;
    PFN_cuStreamGetCtx_v9020 cuStreamGetCtx = nullptr;
    PFN_cuStreamIsCapturing_v10000 cuStreamIsCapturing = nullptr;
    PFN_cuStreamQuery_v2000 cuStreamQuery = nullptr;
    PFN_cuMemsetD8Async_v3020 cuMemsetD8Async = nullptr;
    PFN_cuThreadExchangeStreamCaptureMode_v10010 cuThreadExchangeStreamCaptureMode = nullptr;

    // The driver's kind of memory at an address: CU_MEMORYTYPE_*, or 0 for pageable memory.
    unsigned memory_type(CUdeviceptr address) const noexcept;
    // Whether the address is in pinned memory. Caches the result until the program frees pinned memory.
    bool is_pinned(CUdeviceptr address) const noexcept;
    int device_of(CUdeviceptr address) const noexcept; // -1: unknown
    // Waits a short time for a stream that is about to become idle. Other threads may enqueue work meanwhile.
    CUresult settle(CUstream stream) const noexcept;
    // Whether the program has requested that calls wait for each copy of this memory.
    bool is_synchronised(CUdeviceptr address) const noexcept;
};

// Must be called when pinned memory was freed or unregistered: invalidates the cache of is_pinned().
void forget_pinned() noexcept;

// Null before the program has initialised the driver, and if the driver is too old.
const driver *the_driver() noexcept;
// Same as the_driver(), but makes no driver call: also null if no call has needed the driver yet.
const driver *the_known_driver() noexcept;

// The instance that copies. It is closed when the program resets a device, because ferry's own memory ends with the
// device's context. While this object has an instance, no reset begins.
class copying_instance {
public:
    copying_instance() noexcept;
    ~copying_instance();
    copying_instance(const copying_instance &) = delete;
    copying_instance &operator=(const copying_instance &) = delete;

    // Null if ferry cannot be opened, and during a reset.
    ferry_instance *get() const noexcept { return instance_; }

    // Closes the instance, makes a call that ends a device's context, and allows the instance to be opened again.
    static CUresult pause(CUresult (*call)(CUdevice), CUdevice device) noexcept;

    // Returns when all work that is now on the stream has completed.
    CUresult wait_for(ferry_ticket *copy, CUstream stream) const noexcept; // releases the ticket

private:
    ferry_instance *instance_ = nullptr;
    bool is_locked_ = false;
};

// The instance that allocates pinned memory. It is never closed, so it can free its blocks at any time.
ferry_instance *allocating_instance() noexcept;

// True within calls that ferry makes. Such calls use the real functions and are not counted.
bool is_inside() noexcept;
class inside_ferry {
public:
    inside_ferry() noexcept;
    ~inside_ferry();
    inside_ferry(const inside_ferry &) = delete;
    inside_ferry &operator=(const inside_ferry &) = delete;

private:
    int cancel_state_ = 0;
};

// While this object exists, the thread's captures do not forbid the calls that ferry makes to wait for a copy.
class relaxed_captures {
public:
    explicit relaxed_captures(const driver &on) noexcept;
    ~relaxed_captures();
    relaxed_captures(const relaxed_captures &) = delete;
    relaxed_captures &operator=(const relaxed_captures &) = delete;

private:
    const driver &on_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // while this object exists, the previous mode
};

// Converts ferry's status to the driver's result.
CUresult to_result(int32_t status) noexcept;

} // namespace ferry_run
