#include "device/tracked_contexts.h"

#include <memory>
#include <new>

#include "device/capture_mode.h"
#include "device/context_name.h"
#include "driver/result.h"

namespace ferry {

tracked_contexts::~tracked_contexts() {
    while (tracked_context *const one = first_) {
        first_ = one->next;
        std::destroy_at(one);
        memory_.deallocate(one, sizeof(tracked_context));
    }
}

error tracked_contexts::identify(CUcontext context, unsigned long long &id) const noexcept {
    id = 0;
    return cu_.cuCtxGetId ? to_error(cu_.cuCtxGetId(context, &id)) : ok;
}

tracked_context *tracked_contexts::find(CUcontext handle, unsigned long long id) noexcept {
    const std::lock_guard lock(mutex_);
    tracked_context *one = first_;
    while (one && (one->handle != handle || one->id != id || one->is_gone.load(std::memory_order_relaxed)))
        one = one->next;
    return one;
}

error tracked_contexts::track(CUcontext current, const tracked_context *&found) noexcept {
    unsigned long long id = 0;
    if (error failed = identify(current, id)) return failed;
    found = find(current, id);
    if (found) return {};
    void *const place = memory_.allocate(sizeof(tracked_context), alignof(tracked_context));
    if (!place) return no_memory;
    auto *const made = new (place) tracked_context;
    made->handle = current;
    made->id = id;
    if (cu_.cuEventCreate && cu_.cuEventQuery && cu_.cuEventDestroy)
        if (call_result result = cu_.cuEventCreate(&made->event, CU_EVENT_DISABLE_TIMING)) {
            std::destroy_at(made);
            memory_.deallocate(made, sizeof(tracked_context));
            return to_error(result);
        }
    // Another thread may have tracked the context in the meantime. Then the context has two records, and both are
    // queried.
    const std::lock_guard lock(mutex_);
    made->next = first_;
    first_ = made;
    found = made;
    return {};
}

error tracked_contexts::ask_once(const tracked_context &one) const noexcept {
    constexpr std::int32_t destroyed = to_status(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    const auto is_unknown = [](std::int32_t status) noexcept {
        return status == to_status(CUDA_ERROR_INVALID_CONTEXT) || status == to_status(CUDA_ERROR_INVALID_HANDLE);
    };
    // An event must not be passed to the driver after its context was destroyed.
    unsigned long long id = 0;
    error answer = identify(one.handle, id);
    if (!answer && id != one.id) return {.status = destroyed};
    if (!answer && one.event) answer = to_error(cu_.cuEventQuery(one.event));
    if (is_unknown(answer.status)) return {.status = {destroyed, answer.status.call}};
    return means_dead_context(answer.status) ? answer : ok;
}

error tracked_contexts::ask(const tracked_context &one) const noexcept {
    const relaxed_capture_mode relaxed(cu_); // a query would break a capture of another thread
    if (!relaxed.entered()) return {};
    const error dead = ask_once(one);
    return dead ? ask_once(one) : ok; // a single spurious result must not end a copy
}

void tracked_contexts::forget(const tracked_context &gone) noexcept {
    gone.is_gone.store(true, std::memory_order_relaxed);
}

const tracked_context *tracked_contexts::find(CUcontext handle) noexcept {
    const std::lock_guard lock(mutex_);
    const tracked_context *one = first_;
    while (one && (one->handle != handle || one->is_gone.load(std::memory_order_relaxed)))
        one = one->next;
    return one;
}

void tracked_contexts::close() noexcept {
    for (const tracked_context *one = first_; one; one = one->next)
        if (one->event && may_live(cu_, {one->handle, one->id})) static_cast<void>(cu_.cuEventDestroy(one->event));
}

bool current_context_has_died(const driver_table &cu) noexcept {
    CUevent made = nullptr;
    const status_code status = call_optional(cu.cuEventCreate, &made, CU_EVENT_DISABLE_TIMING);
    if (status == FERRY_SUCCESS) call_optional(cu.cuEventDestroy, made);
    return means_dead_context(status);
}

} // namespace ferry
