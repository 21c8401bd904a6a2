#include "device/contexts.h"

#include <algorithm>

#include "driver/result.h"

namespace ferry {

device_contexts::~device_contexts() {
    // At process exit, the driver may already be unloaded. Then nothing needs to be released.
    for (int device = 0; device < count_; ++device)
        if (slots_[device].primary) cu_.cuDevicePrimaryCtxRelease(devices_[device].handle);
}

bool device_contexts::take_reference(int device) noexcept {
    std::atomic<std::uint64_t> &references = slots_[device].of_program;
    std::uint64_t before = references.load(std::memory_order_relaxed);
    while (before && !references.compare_exchange_weak(before, before - 1, std::memory_order_relaxed)) {
    }
    return before != 0;
}

error device_contexts::retain_primary(int device) noexcept {
    slot &slot = slots_[device];
    if (slot.primary) return {};
    CUcontext retained = nullptr;
    if (call_result result = cu_.cuDevicePrimaryCtxRetain(&retained, devices_[device].handle)) return to_error(result);
    slot.primary = retained;
    return {};
}

error device_contexts::get_primary(int device, CUcontext &context) noexcept {
    CUcontext current = nullptr; // detects a forked child, as in get()
    if (call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    const std::lock_guard lock(mutex_);
    const error failed = retain_primary(device);
    context = slots_[device].primary;
    return failed;
}

error device_contexts::get(int device, CUcontext &context) noexcept {
    slot &slot = slots_[device];
    context = slot.in_use.load(std::memory_order_acquire);
    if (context) return {};
    // A forked child has no driver, and its copy of the mutex may be locked. There, this query fails before the mutex
    // is used.
    CUcontext current = nullptr;
    if (call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    const std::lock_guard lock(mutex_);
    context = slot.in_use.load(std::memory_order_relaxed);
    if (context) return {};
    if (error failed = retain_primary(device)) return failed;
    context = slot.primary;
    slot.in_use.store(context, std::memory_order_release);
    return {};
}

bool device_contexts::exists(int device) const noexcept {
    CUcontext used = nullptr;
    if (is_in_use(device, used)) return true;
    unsigned flags = 0;
    int is_active = 0;
    const status_code status =
        call_optional(cu_.cuDevicePrimaryCtxGetState, devices_[device].handle, &flags, &is_active);
    return status == FERRY_SUCCESS && is_active;
}

error device_contexts::get_any(CUcontext &context) noexcept {
    if (call_result result = cu_.cuCtxGetCurrent(&context)) return to_error(result);
    if (context) return {};
    for (const slot *one = slots_; one != slots_ + count_ && !context; ++one)
        context = one->primary;
    return context ? ok : get(0, context);
}

void device_contexts::adopt(int device, CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    slots_[device].in_use.store(context ? context : slots_[device].primary.load(), std::memory_order_release);
    changes_.fetch_add(1, std::memory_order_acq_rel);
}

void device_contexts::forget(CUcontext context) noexcept {
    const std::lock_guard lock(mutex_);
    for (int device = 0; device < count_; ++device) {
        if (slots_[device].in_use.load(std::memory_order_relaxed) != context) continue;
        slots_[device].in_use.store(slots_[device].primary, std::memory_order_release);
        changes_.fetch_add(1, std::memory_order_acq_rel);
    }
}

bool device_contexts::retains(CUcontext context) const noexcept {
    return std::any_of(slots_, slots_ + count_, [&](const slot &one) { return one.primary == context; });
}

bool device_contexts::keeps(CUcontext context) const noexcept {
    for (int device = 0; device < count_; ++device)
        if (slots_[device].in_use.load(std::memory_order_relaxed) == context || slots_[device].primary == context)
            return true;
    return false;
}

error device_contexts::find_device_of_current(int &device) const noexcept {
    CUdevice handle = 0;
    if (call_result result = cu_.cuCtxGetDevice(&handle)) return to_error(result);
    for (device = 0; device < count_; ++device)
        if (devices_[device].handle == handle) return {};
    return {.status = FERRY_ERROR_DEVICE, .side = FERRY_SIDE_NONE, .field = FERRY_FIELD_DEVICE};
}

error device_contexts::device_of(CUcontext context, int &device) const noexcept {
    context_scope scope(cu_);
    if (error failed = scope.enter(context)) return failed;
    return device_of_current(context, device);
}

error device_contexts::synchronise_current() noexcept {
    CUcontext current = nullptr;
    if (call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    int device = 0;
    if (error failed = device_of_current(current, device)) return failed;
    const std::lock_guard turn(slots_[device].synchronising);
    return to_error(cu_.cuCtxSynchronize());
}

void context_scope::pop() noexcept {
    CUcontext ours = nullptr;
    cu_.cuCtxPopCurrent(&ours);
}

error context_scope::enter(CUcontext wanted) noexcept {
    CUcontext current = nullptr;
    if (call_result result = cu_.cuCtxGetCurrent(&current)) return to_error(result);
    return enter(wanted, current);
}

error context_scope::push(CUcontext wanted) noexcept {
    if (call_result result = cu_.cuCtxPushCurrent(wanted)) return to_error(result);
    pushed_ = true;
    return {};
}

error create_context(const driver_table &cu, CUdevice device, unsigned flags, CUcontext &context) noexcept {
    if (call_result result = cu.cuCtxCreate(&context, flags, device)) return to_error(result);
    CUcontext popped = nullptr; // pops the new context, which cuCtxCreate has pushed
    const call_result result = cu.cuCtxPopCurrent(&popped);
    if (result == CUDA_SUCCESS) return {};
    cu.cuCtxDestroy(context);
    context = nullptr;
    return to_error(result);
}

status_code refuse_another_context(const driver_table &cu, CUcontext handle, unsigned long long number) noexcept {
    constexpr std::int32_t destroyed = to_status(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    if (!cu.cuCtxGetId) return {};
    unsigned long long found = 0;
    const status_code status = to_status(cu.cuCtxGetId(handle, &found));
    if (status == FERRY_SUCCESS) return found == number ? FERRY_SUCCESS : destroyed;
    if (status != destroyed && means_dead_context(status)) return {};
    return {destroyed, status.call};
}

error choose_context_on(const driver_table &cu, device_contexts &contexts, CUstream stream, int device,
                        context_choice &choice) noexcept {
    if (error failed = choose_context(cu, contexts, stream, device, choice)) return failed;
    if (!belongs_to_current_context(stream) || device < 0 || choice.wanted != choice.current) return {};
    int current_device = -1;
    if (error failed = contexts.device_of_current(choice.current, current_device)) return failed;
    return current_device == device ? ok : contexts.get(device, choice.wanted);
}

} // namespace ferry
