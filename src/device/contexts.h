// The contexts ferry works in: one per device, the host program's own where it was adopted, else the primary one; and
// the scope that makes one current and puts back what was.
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

    static constexpr int most_devices = 64;

    // Before anything else, once the devices are known.
    void set_count(int count) noexcept { count_ = count; }
    int count() const noexcept { return count_; }

    // The context for `device`, retaining the primary one on first need.
    [[gnu::noinline]] failure get(int device, CUcontext &context) noexcept;
    // The primary one, whatever was adopted: what is made there lives as long as this does.
    failure get_primary(int device, CUcontext &context) noexcept;
    // Whether it has been asked for, and not only could be.
    bool is_in_use(int device, CUcontext &context) const noexcept {
        context = slots_[device].in_use.load(std::memory_order_acquire);
        return context != nullptr;
    }
    // Null: back to the primary context.
    void adopt(int device, CUcontext context) noexcept;
    // Stops using `context` wherever it was adopted.
    void forget(CUcontext context) noexcept;
    // Another number each time that a device's context becomes another one: the program may end what was made before with
    // the context that it was made in.
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }
    // Whether it is a primary context that is retained here, and so lives.
    bool retains(CUcontext context) noexcept;
    // Whether it is one of ours that lives: adopted, or retained.
    bool keeps(CUcontext context) noexcept;
    // The device of a context; the context must be current.
    failure device_of_current(CUcontext current, int &device) const noexcept {
        device = 0;
        return count_ == 1 ? failure{} : find_device_of_current(current, device);
    }
    failure device_of(CUcontext context, int &device) const noexcept;
    // The device that the context is used for; false for a context that is used for none. Asks nobody.
    bool find(CUcontext context, int &device) const noexcept;

private:
    failure retain_primary(int device) noexcept; // with the mutex locked
    [[gnu::noinline]] failure find_device_of_current(CUcontext current, int &device) const noexcept;

    struct slot {
        std::atomic<CUcontext> in_use = nullptr;
        CUcontext primary = nullptr; // retained; guarded by mutex_
    };
    const driver_table &cu_;
    const device_facts *devices_;
    int count_ = 0;
    std::atomic<std::uint64_t> changes_ = 0;
    std::mutex mutex_;
    slot slots_[most_devices];
};

// Makes a context current until the end of the scope. Pushes only if another one is.
class context_scope {
public:
    explicit context_scope(const driver_table &cu) noexcept : cu_(cu) {}
    ~context_scope() {
        if (pushed_) pop();
    }
    context_scope(const context_scope &) = delete;
    context_scope &operator=(const context_scope &) = delete;

    failure enter(CUcontext wanted) noexcept;
    // As enter, for a caller who knows what is current.
    failure enter(CUcontext wanted, CUcontext current) noexcept { return wanted == current ? failure{} : push(wanted); }

private:
    [[gnu::noinline]] failure push(CUcontext wanted) noexcept;
    void pop() noexcept;

    const driver_table &cu_;
    bool pushed_ = false;
};

// A new context, which is not current.
failure create_context(const driver_table &cu, CUdevice device, unsigned flags, CUcontext &context) noexcept;

// Whether the context with the number has ended: the driver does not know the handle, or another has it now. A failure that
// says something else is no answer, and what is made there must still be freed.
bool is_another_context(const driver_table &cu, CUcontext handle, unsigned long long number) noexcept;

// NULL, the legacy and the per-thread stream belong to whatever context is current.
inline bool belongs_to_current_context(CUstream stream) noexcept {
    return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// What a call works in, and what is current while it is being found.
struct context_choice {
    CUcontext wanted = nullptr;
    CUcontext current = nullptr;
};

// The stream's context. For the streams above it is the current one; without one, `find_device(device)` finds the device
// whose context is taken: device 0's where it leaves -1.
template <class FindDevice>
[[gnu::always_inline]] inline failure choose_context_by(const driver_table &cu, device_contexts &contexts,
                                                        CUstream stream, const FindDevice &find_device,
                                                        context_choice &choice) noexcept {
    if (CUresult result = cu.cuCtxGetCurrent(&choice.current)) return to_failure(result);
    if (!belongs_to_current_context(stream)) return to_failure(cu.cuStreamGetCtx(stream, &choice.wanted));
    choice.wanted = choice.current;
    if (choice.wanted) return {};
    int device = -1;
    if (failure failed = find_device(device)) return failed;
    return contexts.get(device >= 0 ? device : 0, choice.wanted);
}

inline failure choose_context(const driver_table &cu, device_contexts &contexts, CUstream stream, int device,
                              context_choice &choice) noexcept {
    const auto find_device = [&](int &found) noexcept -> failure {
        found = device;
        return {};
    };
    return choose_context_by(cu, contexts, stream, find_device, choice);
}

// For work that reaches the memory of its context's device alone: the default streams are those of the current context
// only if it is of `device`. -1: any device will do.
failure choose_context_on(const driver_table &cu, device_contexts &contexts, CUstream stream, int device,
                          context_choice &choice) noexcept;

} // namespace ferry
