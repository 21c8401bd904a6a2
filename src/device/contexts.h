// Records the context that ferry uses for each device: the context that the program adopted, or else the primary
// context. context_scope makes a context current and restores the previous one.
#pragma once

#include <atomic>
#include <mutex>

#include "device/facts.h"
#include "driver/result.h"

namespace ferry {

class device_contexts {
public:
    device_contexts(const driver_table &cu, const device_facts *devices) noexcept : cu_(cu), devices_(devices) {}
    ~device_contexts();
    device_contexts(const device_contexts &) = delete;
    device_contexts &operator=(const device_contexts &) = delete;

    static constexpr int max_devices = 64;

    // Must be called first, once the devices are known.
    void set_count(int count) noexcept { count_ = count; }
    int count() const noexcept { return count_; }

    // Returns the context for `device`. Retains the primary context on first use.
    [[gnu::noinline]] error get(int device, CUcontext &context) noexcept;
    // Returns the primary context, regardless of any adopted context. Objects created there live as long as this
    // object.
    error get_primary(int device, CUcontext &context) noexcept;
    // Returns the current context. Without a current context, returns a primary context that is already retained, or
    // else retains the primary context of device 0.
    error get_any(CUcontext &context) noexcept;
    // Whether ferry already uses a context for `device`. Does not retain a context.
    bool is_in_use(int device, CUcontext &context) const noexcept {
        context = slots_[device].in_use.load(std::memory_order_acquire);
        return context != nullptr;
    }
    // Whether get() would return a context that exists already, which takes microseconds.
    [[gnu::cold]] bool exists(int device) const noexcept;
    // Counts the references to the primary context that the program has taken through the instance. take_reference
    // returns false if there is none, and removes one otherwise.
    void add_reference(int device) noexcept { slots_[device].of_program.fetch_add(1, std::memory_order_relaxed); }
    [[nodiscard]] bool take_reference(int device) noexcept;
    // Null selects the primary context again.
    void adopt(int device, CUcontext context) noexcept;
    // Stops using `context` for every device for which it was adopted.
    void forget(CUcontext context) noexcept;
    // Changes each time the context of a device is replaced, because the program may then destroy the previous context,
    // and with it all objects created there.
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }
    // Whether `context` is a primary context that this object retains, which means that it is alive. Does not wait
    // while another thread creates a context, and neither does keeps().
    bool retains(CUcontext context) const noexcept;
    // Whether `context` is an adopted or retained context, which means that it is alive.
    bool keeps(CUcontext context) const noexcept;
    // Returns the device of `current`, which must be the current context.
    error device_of_current(CUcontext current, int &device) const noexcept {
        device = 0;
        return count_ == 1 || find(current, device) ? ok : find_device_of_current(device);
    }
    error device_of(CUcontext context, int &device) const noexcept;
    // Finds the device for which `context` is used, without a driver call. False if it is used for no device.
    bool find(CUcontext context, int &device) const noexcept {
        for (device = 0; device < count_; ++device)
            if (slots_[device].in_use.load(std::memory_order_relaxed) == context) return true;
        return false;
    }
    // Waits for all work of the current context. CUDA 13.0 can deadlock if two threads call cuCtxSynchronize while
    // other threads use memory pools (docs/driver.md), so ferry serialises these calls per device.
    error synchronise_current() noexcept;

private:
    error retain_primary(int device) noexcept; // requires the mutex
    [[gnu::cold, gnu::noinline]] error find_device_of_current(int &device) const noexcept;

    struct slot {
        std::atomic<CUcontext> in_use = nullptr;
        std::atomic<CUcontext> primary = nullptr;  // retained, until the destructor; changes with the mutex locked
        std::atomic<std::uint64_t> of_program = 0; // references to the primary context
        std::mutex synchronising;                  // locked during cuCtxSynchronize
    };
    const driver_table &cu_;
    const device_facts *devices_;
    int count_ = 0;
    std::atomic<std::uint64_t> changes_ = 0;
    std::mutex mutex_;
    slot slots_[max_devices];
};

// Makes a context current until the end of the scope. Pushes it only if another context is current.
class context_scope {
public:
    explicit context_scope(const driver_table &cu) noexcept : cu_(cu) {}
    ~context_scope() {
        if (pushed_) pop();
    }
    context_scope(const context_scope &) = delete;
    context_scope &operator=(const context_scope &) = delete;

    error enter(CUcontext wanted) noexcept;
    // Same as above, for a caller that knows the current context.
    error enter(CUcontext wanted, CUcontext current) noexcept { return wanted == current ? ok : push(wanted); }

private:
    [[gnu::noinline]] error push(CUcontext wanted) noexcept;
    void pop() noexcept;

    const driver_table &cu_;
    bool pushed_ = false;
};

// Creates a context and restores the previous current context.
error create_context(const driver_table &cu, CUdevice device, unsigned flags, CUcontext &context) noexcept;

// A context that is destroyed at the end of the scope. Access that is enabled in it ends with it, so copies of the
// program cannot be using that access.
class temporary_context {
public:
    explicit temporary_context(const driver_table &cu) noexcept : cu_(cu) {}
    ~temporary_context() {
        if (made_) cu_.cuCtxDestroy(made_);
    }
    temporary_context(const temporary_context &) = delete;
    temporary_context &operator=(const temporary_context &) = delete;

    error make(CUdevice device) noexcept { return create_context(cu_, device, 0, made_); }
    CUcontext get() const noexcept { return made_; }

private:
    const driver_table &cu_;
    CUcontext made_ = nullptr;
};

// CUDA_ERROR_CONTEXT_IS_DESTROYED if the context with that number no longer exists: the driver does not know the handle,
// or another context has it. A status that reports a context killed by another error does not count: objects created
// there must still be freed.
status_code refuse_another_context(const driver_table &cu, CUcontext handle, unsigned long long number) noexcept;

// NULL, the legacy and the per-thread stream belong to the current context.
inline bool belongs_to_current_context(CUstream stream) noexcept {
    return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// The context in which a call works, and the context that was current when it was chosen.
struct context_choice {
    CUcontext wanted = nullptr;
    CUcontext current = nullptr;
};

// Chooses the stream's context. For the default streams above, chooses the current context. Without a current context,
// chooses the context of the device that `find_device(device)` finds, or of device 0 if it leaves -1.
template <class FindDevice>
[[gnu::always_inline]] inline error choose_context_by(const driver_table &cu, device_contexts &contexts,
                                                      CUstream stream, const FindDevice &find_device,
                                                      context_choice &choice) noexcept {
    if (call_result result = cu.cuCtxGetCurrent(&choice.current)) return to_error(result);
    if (!belongs_to_current_context(stream)) return to_error(cu.cuStreamGetCtx(stream, &choice.wanted));
    choice.wanted = choice.current;
    if (choice.wanted) return {};
    int device = -1;
    if (error failed = find_device(device)) return failed;
    return contexts.get(device >= 0 ? device : 0, choice.wanted);
}

inline error choose_context(const driver_table &cu, device_contexts &contexts, CUstream stream, int device,
                            context_choice &choice) noexcept {
    const auto find_device = [&](int &found) noexcept -> error {
        found = device;
        return {};
    };
    return choose_context_by(cu, contexts, stream, find_device, choice);
}

// Same as choose_context, for work that accesses only memory of the context's device. For a default stream, chooses the
// current context only if it is on `device`, or else the context for `device`. -1: any device.
error choose_context_on(const driver_table &cu, device_contexts &contexts, CUstream stream, int device,
                        context_choice &choice) noexcept;

} // namespace ferry
