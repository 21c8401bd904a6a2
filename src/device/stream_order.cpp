#include "device/stream_order.h"

#include "driver/result.h"

namespace ferry {

bool follows_legacy_stream(const driver_table &cu, CUstream stream) noexcept {
    if (!stream || stream == CU_STREAM_LEGACY) return false;
    unsigned flags = CU_STREAM_DEFAULT;
    if (cu.cuStreamGetFlags && cu.cuStreamGetFlags(stream, &flags)) return true;
    return !(flags & CU_STREAM_NON_BLOCKING);
}

namespace {

// An event recorded on the stream also waits for the work on the legacy stream.
error wait_by_event(const driver_table &cu, CUstream stream) noexcept {
    if (!cu.cuEventCreate || !cu.cuEventRecord || !cu.cuEventSynchronize || !cu.cuEventDestroy)
        return to_error(cu.cuStreamSynchronize(CU_STREAM_LEGACY));
    CUevent passed = nullptr;
    if (const call_result result = cu.cuEventCreate(&passed, CU_EVENT_DISABLE_TIMING)) return to_error(result);
    call_result result = cu.cuEventRecord(passed, stream);
    if (result == CUDA_SUCCESS) result = cu.cuEventSynchronize(passed);
    const call_result destroyed = cu.cuEventDestroy(passed);
    return to_error(result ? result : destroyed);
}

} // namespace

bool is_idle(const driver_table &cu, CUstream stream, bool legacy_counts) noexcept {
    if (!cu.cuStreamQuery || (legacy_counts && follows_legacy_stream(cu, stream))) return false;
    const relaxed_capture_mode relaxed(cu);
    return relaxed.entered() && cu.cuStreamQuery(stream) == CUDA_SUCCESS;
}

void pass_to_device(const driver_table &cu, CUstream stream) noexcept {
    if (!cu.cuStreamQuery) return;
    const relaxed_capture_mode relaxed(cu);
    if (relaxed.entered()) cu.cuStreamQuery(stream); // the result does not matter
}

error pass_earlier_work(const driver_table &cu, CUstream stream, bool legacy_counts) noexcept {
    const relaxed_capture_mode relaxed(cu);
    if (!relaxed.entered()) return relaxed.why();
    if (legacy_counts && follows_legacy_stream(cu, stream)) return wait_by_event(cu, stream);
    return to_error(cu.cuStreamSynchronize(stream));
}

error wait_for_legacy_stream(const driver_table &cu) noexcept {
    const relaxed_capture_mode relaxed(cu);
    return relaxed.entered() ? to_error(cu.cuStreamSynchronize(CU_STREAM_LEGACY)) : relaxed.why();
}

} // namespace ferry
