// A context that dies in the middle of one of ferry's copies: after the first event that is recorded there, and so
// after the first chunk. For the software driver. Only one can exist at a time.
#pragma once

#include <utility>

#include "exec/kernel_launch.h"
#include "support/raw_objects.h"
#include "support/replaced_call.h"

namespace ferry::test {

class dying_context {
public:
    explicit dying_context(int device) {
        CUdevice number = 0;
        EXPECT_OK(raw().cuDeviceGet(&number, device));
        EXPECT_OK(raw().cuCtxCreate(&context_, 0, number));
        EXPECT_OK(kernels_.load_into(context_).status);
        EXPECT_OK(raw().cuCtxPopCurrent(nullptr));
        living = this;
    }
    ~dying_context() {
        living = nullptr;
        kernels_.forget(context_);
        raw().cuCtxDestroy(context_); // refused once it is dead
    }
    dying_context(const dying_context &) = delete;
    dying_context &operator=(const dying_context &) = delete;

    operator CUcontext() const { return context_; }
    // After this call, the next event kills the context.
    void arm() { is_armed_ = true; }
    // Kills the context now.
    void die() const {
        const made_current in(context_);
        launch_into_nowhere(CU_STREAM_PER_THREAD);
        EXPECT_NE(raw().cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_SUCCESS);
    }
    // Whether the work that kills the context has been enqueued.
    bool is_doomed() const { return is_doomed_; }
    CUdeviceptr allocate(std::uint64_t size) const { // ends with the context
        const made_current in(context_);
        CUdeviceptr memory = 0;
        EXPECT_OK(raw().cuMemAlloc(&memory, size));
        return memory;
    }

    // Options for instances that use this context.
    static ferry_options options() {
        static replaced_call recording = {"cuEventRecord", reinterpret_cast<void *>(record)};
        return recording.options();
    }

private:
    static CUresult record(CUevent event, CUstream on) {
        const CUresult recorded = raw().cuEventRecord(event, on);
        CUcontext current = nullptr;
        if (living && living->is_armed_ && raw().cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
            current == living->context_) {
            living->is_armed_ = false;
            living->is_doomed_ = true;
            living->launch_into_nowhere(on);
        }
        return recorded;
    }

    void launch_into_nowhere(CUstream on) const {
        const kernel_box nowhere = {{4096, 0, 0}, {8192, 0, 0}, 16, 1, 1};
        EXPECT_OK(launch_strided(raw(), kernels_, nowhere, 1, on).status);
    }

    static inline dying_context *living = nullptr;
    mutable kernel_set kernels_{raw()};
    CUcontext context_ = nullptr;
    bool is_armed_ = false, is_doomed_ = false;
};

} // namespace ferry::test
