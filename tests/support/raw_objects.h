// Owners of objects created by raw driver calls, for tests that call the driver directly.
#pragma once

#include "support/driver_under_test.h"

#include <cstddef>
#include <vector>

namespace ferry::test {

#define EXPECT_RESULT(expected, call) EXPECT_EQ(static_cast<int>(expected), static_cast<int>(call))

struct device_memory {
    explicit device_memory(size_t size) { EXPECT_OK(raw().cuMemAlloc(&address, size)); }
    ~device_memory() { raw().cuMemFree(address); }
    device_memory(const device_memory &) = delete;
    operator CUdeviceptr() const { return address; }
    CUdeviceptr address = 0;
};

struct pinned_memory {
    explicit pinned_memory(size_t size) : size(size) { EXPECT_OK(raw().cuMemHostAlloc(&address, size, 0)); }
    ~pinned_memory() { raw().cuMemFreeHost(address); }
    pinned_memory(const pinned_memory &) = delete;
    std::byte *data() const { return static_cast<std::byte *>(address); }
    bytes copy() const { return bytes(data(), data() + size); }
    void *address = nullptr;
    size_t size;
};

struct test_stream {
    explicit test_stream(unsigned flags = CU_STREAM_NON_BLOCKING) { EXPECT_OK(raw().cuStreamCreate(&handle, flags)); }
    ~test_stream() { raw().cuStreamDestroy(handle); }
    test_stream(const test_stream &) = delete;
    operator CUstream() const { return handle; }
    CUstream handle = nullptr;
};

struct test_event {
    explicit test_event(unsigned flags = 0) { EXPECT_OK(raw().cuEventCreate(&handle, flags)); }
    ~test_event() { raw().cuEventDestroy(handle); }
    test_event(const test_event &) = delete;
    operator CUevent() const { return handle; }
    CUevent handle = nullptr;
};

// Makes a context, or no context, current for a scope and restores the previous context at its end.
struct made_current {
    explicit made_current(CUcontext wanted) {
        EXPECT_OK(raw().cuCtxGetCurrent(&before));
        EXPECT_OK(raw().cuCtxSetCurrent(wanted));
    }
    ~made_current() { EXPECT_OK(raw().cuCtxSetCurrent(before)); }
    made_current(const made_current &) = delete;
    CUcontext before = nullptr;
};

// A second context on device 0. It is current only if a test makes it current.
struct test_context {
    test_context() {
        EXPECT_OK(raw().cuCtxCreate(&handle, 0, 0));
        CUcontext popped = nullptr;
        EXPECT_OK(raw().cuCtxPopCurrent(&popped));
    }
    ~test_context() { EXPECT_OK(raw().cuCtxDestroy(handle)); }
    test_context(const test_context &) = delete;
    operator CUcontext() const { return handle; }
    CUcontext handle = nullptr;
};

// The primary context of device 1. The device under test is device 0.
struct other_device {
    other_device() { EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&context, 1)); }
    ~other_device() { EXPECT_OK(raw().cuDevicePrimaryCtxRelease(1)); }
    other_device(const other_device &) = delete;
    operator CUcontext() const { return context; }
    CUcontext context = nullptr;
};

inline bytes read_back(CUdeviceptr address, size_t size) {
    bytes out(size);
    EXPECT_OK(raw().cuMemcpyDtoH(out.data(), address, size));
    return out;
}

inline void write(CUdeviceptr address, const bytes &data) {
    EXPECT_OK(raw().cuMemcpyHtoD(address, data.data(), data.size()));
}

// Writes, and then waits for the context, because a synchronous copy from pageable memory may return before its bytes
// arrive.
inline void write_for_all_streams(CUdeviceptr address, const bytes &data) {
    write(address, data);
    EXPECT_OK(raw().cuCtxSynchronize());
}

} // namespace ferry::test
