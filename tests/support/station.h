// Memory and a stream on a device, for tests with several devices.
#pragma once

#include "support/driver_under_test.h"

namespace ferry::test {

class station {
public:
    station(CUcontext context, std::uint64_t size) : context_(context), size_(size) {
        enter();
        EXPECT_OK(raw().cuMemAlloc(&address_, size));
        EXPECT_OK(raw().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
        leave();
    }
    ~station() {
        enter();
        EXPECT_OK(raw().cuStreamSynchronize(stream_));
        EXPECT_OK(raw().cuStreamDestroy(stream_));
        EXPECT_OK(raw().cuMemFree(address_));
        leave();
    }
    station(const station &) = delete;
    station &operator=(const station &) = delete;

    CUdeviceptr address() const { return address_; }
    CUstream stream() const { return stream_; }
    void write(const bytes &from) const {
        enter();
        EXPECT_OK(raw().cuMemcpyHtoD(address_, from.data(), from.size()));
        EXPECT_OK(raw().cuStreamSynchronize(CU_STREAM_LEGACY)); // the call may return before its last bytes arrive
        leave();
    }
    bytes read() const {
        bytes found(size_);
        enter();
        EXPECT_OK(raw().cuMemcpyDtoH(found.data(), address_, size_));
        leave();
        return found;
    }
    // Enqueues a fill of all bytes.
    void fill(unsigned char value, CUstream on) const {
        enter();
        EXPECT_OK(raw().cuMemsetD8Async(address_, value, size_, on));
        leave();
    }
    void wait() const { EXPECT_OK(raw().cuStreamSynchronize(stream_)); }

private:
    void enter() const { EXPECT_OK(raw().cuCtxPushCurrent(context_)); }
    static void leave() {
        CUcontext left = nullptr;
        EXPECT_OK(raw().cuCtxPopCurrent(&left));
    }
    const CUcontext context_;
    const std::uint64_t size_;
    CUdeviceptr address_ = 0;
    CUstream stream_ = nullptr;
};

} // namespace ferry::test
