#include "submit/notification.h"

#include <cstdlib>
#include <new>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "submit/note_error.h"

namespace ferry {

namespace {

// Allocated by malloc, because the call may be made after the instance was closed.
struct notification {
    void (*done)(void *user, std::int32_t status);
    void *user;
};

void CUDA_CB call(CUstream, CUresult result, void *given) {
    const notification called = *static_cast<notification *>(given);
    std::free(given);
    called.done(called.user, to_status(result));
}

} // namespace

error notify_behind(ferry_instance &instance, CUstream stream, void (*done)(void *user, std::int32_t status),
                    void *user) noexcept {
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, stream, scope)) return failed;
    if (error failed = refuse_events_under_capture(instance.cu, stream)) return failed;
    void *const place = std::malloc(sizeof(notification));
    if (!place) return no_memory;
    new (place) notification{done, user};
    const status_code status = call_optional(instance.cu.cuStreamAddCallback, stream, &call, place, 0u);
    if (status) std::free(place);
    return {.status = noted(instance, status)};
}

} // namespace ferry
