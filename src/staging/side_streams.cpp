#include "staging/side_streams.h"

#include "device/capture_mode.h"
#include "device/context_name.h"

namespace ferry {

side_stream *side_streams::take(const tracked_context &current) noexcept {
    side_stream *unused = nullptr;
    for (side_stream &one : all_) {
        if (one.is_taken.exchange(true, std::memory_order_acquire)) continue;
        const bool is_free = !one.context || one.context->is_gone.load(std::memory_order_relaxed);
        if (one.context == &current && !is_free) {
            if (unused) release(*unused);
            return &one;
        }
        if (is_free && !unused)
            unused = &one;
        else
            release(one);
    }
    if (!unused) return nullptr;
    if (make(*unused, current)) return unused;
    release(*unused);
    return nullptr;
}

bool side_streams::make(side_stream &one, const tracked_context &context) const noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return false;
    one.context = nullptr; // a stream is destroyed with its context
    if (call_optional(cu_.cuStreamCreateWithPriority, &one.handle, CU_STREAM_NON_BLOCKING, 0)) return false;
    one.context = &context;
    return true;
}

void side_streams::close() noexcept {
    for (side_stream &one : all_) {
        if (!one.context || !may_live(cu_, {one.context->handle, one.context->id})) continue;
        call_optional(cu_.cuStreamDestroy, one.handle);
        one.context = nullptr;
    }
}

} // namespace ferry
