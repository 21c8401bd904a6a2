// The program's driver, and ferry on it: opened with the first call that may be worth it.
#pragma once

#include <ferry/ferry.h>

#include "driver/table.h"

namespace ferry_run {

// Functions of the driver that a call asks before ferry is needed.
struct driver {
    int device_count = 0;
    bool is_software = false; // ferry's software driver: what it costs is no prediction for a GPU
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

    // What the driver knows at an address: CU_MEMORYTYPE_*, or 0 for pageable memory.
    unsigned memory_type(CUdeviceptr address) const noexcept;
    // Whether the address lies in pinned memory. Remembers where it was found until the program frees pinned memory.
    bool is_pinned(CUdeviceptr address) const noexcept;
    int device_of(CUdeviceptr address) const noexcept; // -1: not known
    // Waits a moment for a stream that is about to become idle; others may give it work meanwhile.
    CUresult settle(CUstream stream) const noexcept;
    // Whether the program asked for calls that wait for each copy of this memory.
    bool is_synchronised(CUdeviceptr address) const noexcept;
};

// Pinned memory was freed or unregistered: what is_pinned() remembers no longer holds.
void forget_pinned() noexcept;

// Null before the program has initialised the driver, and where the driver is too old.
const driver *the_driver() noexcept;
// The same, without a look at the driver: null too if no call has needed it.
const driver *the_known_driver() noexcept;

// The instance that copies. It is closed when the program resets a device: ferry's own memory ends with the device's
// context. While this object has an instance, no reset begins.
class copying_instance {
public:
    copying_instance() noexcept;
    ~copying_instance();
    copying_instance(const copying_instance &) = delete;
    copying_instance &operator=(const copying_instance &) = delete;

    // Null where ferry cannot be opened, and during a reset.
    ferry_instance *get() const noexcept { return instance_; }

    // Closes the instance, makes a call that ends a device's context, and lets others open the instance again.
    static CUresult pause(CUresult (*call)(CUdevice), CUdevice device) noexcept;

    // Returns when the stream has passed what is enqueued on it now.
    CUresult wait_for(ferry_ticket *copy, CUstream stream) const noexcept; // releases the ticket

private:
    ferry_instance *instance_ = nullptr;
    bool is_locked_ = false;
};

// The instance that allocates pinned memory. It is never closed, so it can free its blocks at any time.
ferry_instance *allocating_instance() noexcept;

// True in calls that ferry makes: they reach the real functions, and count for nothing.
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

// While it exists, the thread's captures forbid none of the calls that ferry makes to wait for a copy.
class relaxed_captures {
public:
    explicit relaxed_captures(const driver &on) noexcept;
    ~relaxed_captures();
    relaxed_captures(const relaxed_captures &) = delete;
    relaxed_captures &operator=(const relaxed_captures &) = delete;

private:
    const driver &on_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED; // while this exists, that of before
};

// The driver's result for a status of ferry's.
CUresult to_result(int32_t status) noexcept;

} // namespace ferry_run
