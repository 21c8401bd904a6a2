// The GPU kernels of an instance. The library is loaded once for all devices, and the kernels are loaded into each
// context that uses them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "driver/table.h"
#include "kernels/names.h"

namespace ferry {

class kernel_set {
public:
    // `image`: null selects ferry's own kernels.
    explicit kernel_set(const driver_table &cu, const void *image = nullptr) noexcept : cu_(cu), image_(image) {}
    ~kernel_set();
    kernel_set(const kernel_set &) = delete;
    kernel_set &operator=(const kernel_set &) = delete;

    // Loads the library on first use, without disturbing captures. A failure is final, and later calls return the same
    // status, except in a dead context: there every call fails, but another context may still load the kernels.
    error load() noexcept { return is_loaded() ? ok : load_now(); }
    // Also loads the kernels into `context`, which must be current. This waits for the work that runs there (CUDA
    // 13.0), as the first launch would otherwise do. If the caller may not wait, returns FERRY_ERROR_WOULD_BLOCK
    // instead.
    error load_into(CUcontext context, bool may_wait = true) noexcept {
        for (const std::atomic<CUcontext> &one : contexts_)
            if (one.load(std::memory_order_acquire) == context) return {};
        return may_wait ? load_into_now(context) : error{.status = FERRY_ERROR_WOULD_BLOCK};
    }
    // Must be called when a context ends, because another context may get its handle.
    void forget(CUcontext context) noexcept;
    error get(gpu::kernel which, CUfunction &function) noexcept {
        if (error failed = load()) return failed;
        function = functions_[static_cast<unsigned>(which)];
        return {};
    }
    // Permanent. Must be called first.
    void disable() noexcept {
        why_ = {.status = FERRY_ERROR_UNSUPPORTED};
        state_.store(state::failed, std::memory_order_release);
    }
    bool is_loaded() const noexcept { return state_.load(std::memory_order_acquire) == state::loaded; }
    // Whether the kernels are loaded or can still be loaded. False after a final failure, and if an entry point is
    // missing.
    bool may_serve() const noexcept {
        return state_.load(std::memory_order_acquire) != state::failed && !missing_entry_point();
    }
    // The first entry point that kernels require and this driver lacks; null if the driver has all of them.
    const char *missing_entry_point() const noexcept;
    // The number of contexts into which the kernels are known to be loaded.
    std::uint32_t context_count() const noexcept;

private:
    [[gnu::cold, gnu::noinline]] error load_now() noexcept;
    [[gnu::cold, gnu::noinline]] error load_into_now(CUcontext context) noexcept;
    error try_to_load() noexcept;
    error try_to_load(const void *image) noexcept;

    enum class state { not_requested, loaded, failed };
    const driver_table &cu_;
    const void *image_;
    std::atomic<state> state_ = state::not_requested;
    std::mutex mutex_;
    error why_ = {}; // the reason why loading failed; guarded by mutex_
    CUlibrary library_ = nullptr;
    CUfunction functions_[gpu::kernel_count] = {};
    std::atomic<CUcontext> contexts_[16] = {}; // with loaded kernels; beyond 16, each call loads again
};

} // namespace ferry
