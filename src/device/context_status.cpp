#include "device/context_status.h"

#include "device/capture_mode.h"

namespace ferry {

status_code context_status(const driver_table &cu, CUcontext context) noexcept {
    context_scope scope(cu);
    if (error failed = scope.enter(context)) return failed.status;
    const relaxed_capture_mode relaxed(cu);
    // Querying a stream that the program is capturing would break that capture.
    if (!relaxed.entered() || is_being_captured(cu, CU_STREAM_PER_THREAD)) return FERRY_SUCCESS;
    return call_optional(cu.cuStreamQuery, CU_STREAM_PER_THREAD);
}

} // namespace ferry
