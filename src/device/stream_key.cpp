#include "device/stream_key.h"

namespace ferry {

namespace {

// The default stream has two handles. The per-thread stream has one handle, but is a different stream on each thread.
const void *handle_of(CUstream stream) noexcept {
    static thread_local const char this_thread = 0;
    if (stream == CU_STREAM_PER_THREAD) return &this_thread;
    return stream ? stream : CU_STREAM_LEGACY;
}

} // namespace

error name_stream(const driver_table &cu, CUcontext context, CUstream stream, stream_key &key) noexcept {
    key = {{context, 0}, handle_of(stream), 0};
    if (!cu.cuStreamGetId) return {};
    const relaxed_capture_mode relaxed(cu); // the queries below would break a capture of this thread (CUDA 13.0)
    if (!relaxed.entered()) return relaxed.why();
    if (cu.cuStreamGetId(stream, &key.number)) key.number = 0;
    key.context = name_context(cu, context);
    return {};
}

} // namespace ferry
