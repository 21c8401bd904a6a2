// The GPU kernels of an instance: read once for all devices, and loaded into each context that needs them.
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
    explicit kernel_set(const driver_table &cu, const void *image) noexcept : cu_(cu), image_(image) {}
    explicit kernel_set(const driver_table &cu) noexcept;
    ~kernel_set();
    kernel_set(const kernel_set &) = delete;
    kernel_set &operator=(const kernel_set &) = delete;

    // Reads them on first need, without harm to captures. What fails once is not tried again: the status stays.
    // But of a context that is lost, which says so of everything: others may load them.
    failure load() noexcept { return is_loaded() ? failure{} : load_or_tell_why(); }
    // And into the current context, which is `context`. That waits for what runs there (CUDA 13.0), and would be done by
    // the first launch otherwise.
    failure load_into(CUcontext context) noexcept {
        for (const std::atomic<CUcontext> &one : contexts_)
            if (one.load(std::memory_order_acquire) == context) return {};
        return load_into_or_tell_why(context);
    }
    // Another may have its handle.
    void forget(CUcontext context) noexcept;
    failure get(kernels::kernel which, CUfunction &function) noexcept {
        if (failure failed = load()) return failed;
        function = functions_[static_cast<unsigned>(which)];
        return {};
    }
    // They shall never be loaded. Before anything else.
    void give_up() noexcept {
        why_ = {.status = FERRY_ERROR_UNSUPPORTED};
        state_.store(state::failed, std::memory_order_release);
    }
    bool is_loaded() const noexcept { return state_.load(std::memory_order_acquire) == state::loaded; }
    // Whether they are loaded, or may yet be: false from the first failure on, and where an entry point is missing.
    bool may_serve() const noexcept {
        return state_.load(std::memory_order_acquire) != state::failed && !missing_entry_point();
    }
    // The entry point that this driver would need for kernels; null where it has them all.
    const char *missing_entry_point() const noexcept;
    // In which they are, as far as it is kept.
    std::uint32_t context_count() const noexcept;
    // What loading took; 0 before.
    std::uint64_t load_time_ns() const noexcept { return load_time_ns_.load(std::memory_order_relaxed); }

private:
    [[gnu::cold, gnu::noinline]] failure load_or_tell_why() noexcept;
    [[gnu::cold, gnu::noinline]] failure load_into_or_tell_why(CUcontext context) noexcept;
    failure try_to_load() noexcept;

    enum class state { not_asked_for, loaded, failed };
    const driver_table &cu_;
    const void *image_;
    std::atomic<state> state_ = state::not_asked_for;
    std::atomic<std::uint64_t> load_time_ns_ = 0;
    std::mutex mutex_;
    failure why_ = {}; // it failed; guarded by mutex_
    CUlibrary library_ = nullptr;
    CUfunction functions_[kernels::kernel_count] = {};
    std::atomic<CUcontext> contexts_[16] = {}; // in which they are loaded; of more, each is asked for anew
};

} // namespace ferry
