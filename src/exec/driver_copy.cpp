#include "exec/driver_copy.h"

#include "device/stream_order.h"
#include "driver/result.h"

namespace ferry {

namespace {

CUmemorytype memory_type(memory_kind kind) noexcept {
    switch (kind) {
    case memory_kind::device:
        return CU_MEMORYTYPE_DEVICE;
    case memory_kind::managed:
        return CU_MEMORYTYPE_UNIFIED;
    case memory_kind::array:
        return CU_MEMORYTYPE_ARRAY;
    default:
        return CU_MEMORYTYPE_HOST;
    }
}

// Sets the fields that CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER share, one by one. Zeroing the struct first would cost a
// tenth of all that ferry adds to a small copy. The addresses of linear ends include their origins, because drivers
// have computed srcY and srcZ wrongly for stream-ordered memory (JuliaGPU/CUDA.jl issue 863).
template <class Call> [[gnu::always_inline]] inline void lower(const shape &shape, Call &call) noexcept {
    const shape_end &source = shape.source, &destination = shape.destination;
    const bool has_rows = shape.height > 1 || shape.depth > 1, has_slices = shape.depth > 1;

    call.srcMemoryType = memory_type(source.kind);
    call.srcHost = reinterpret_cast<const void *>(source.span.first); // the driver reads the member that the type names
    call.srcDevice = source.span.first;
    call.srcArray = source.array;
    call.srcXInBytes = source.x;
    call.srcY = source.y;
    call.srcZ = source.z;
    call.srcLOD = 0;
    call.srcPitch = has_rows ? source.row_pitch : 0;
    call.srcHeight = has_slices ? source.slice_height : 0;

    call.dstMemoryType = memory_type(destination.kind);
    call.dstHost = reinterpret_cast<void *>(destination.span.first);
    call.dstDevice = destination.span.first;
    call.dstArray = destination.array;
    call.dstXInBytes = destination.x;
    call.dstY = destination.y;
    call.dstZ = destination.z;
    call.dstLOD = 0;
    call.dstPitch = has_rows ? destination.row_pitch : 0;
    call.dstHeight = has_slices ? destination.slice_height : 0;

    call.WidthInBytes = shape.width;
    call.Height = shape.height;
    call.Depth = shape.depth;
}

[[gnu::noinline]] call_result issue_between_contexts(const driver_table &cu, const shape &shape, copy_form form,
                                                     const end_contexts &contexts, CUstream stream) noexcept {
    CUDA_MEMCPY3D_PEER call;
    lower(shape, call);
    call.srcContext = contexts.source;
    call.dstContext = contexts.destination;
    return form == copy_form::synchronous ? cu.cuMemcpy3DPeer(&call) : cu.cuMemcpy3DPeerAsync(&call, stream);
}

} // namespace

const char *driver_call_name(const copy_plan &plan, copy_form form) noexcept {
    constexpr const char *names[2][2] = {{"cuMemcpy3D", "cuMemcpy3DAsync"}, {"cuMemcpy3DPeer", "cuMemcpy3DPeerAsync"}};
    return names[plan.names_contexts][form == copy_form::asynchronous];
}

error run_driver_route(const driver_table &cu, const shape &shape, const copy_plan &plan, copy_form form,
                       const end_contexts &contexts, CUstream stream) noexcept {
    call_result result;
    if (plan.names_contexts) {
        result = issue_between_contexts(cu, shape, form, contexts, stream);
    } else {
        CUDA_MEMCPY3D call;
        lower(shape, call);
        call.reserved0 = call.reserved1 = nullptr;
        result = form == copy_form::synchronous ? cu.cuMemcpy3D(&call) : cu.cuMemcpy3DAsync(&call, stream);
    }
    if (result == CUDA_SUCCESS && plan.synchronise_after) return wait_for_legacy_stream(cu);
    return to_error(result);
}

call_result copy_line(const driver_table &cu, const line_end &source, const line_end &destination, std::uint64_t bytes,
                      copy_form form, CUstream stream) noexcept {
    shape line;
    line.source = line_end_at(source.kind, -1, source.address, bytes);
    line.destination = line_end_at(destination.kind, -1, destination.address, bytes);
    line.width = bytes;
    line.height = line.depth = 1;
    CUDA_MEMCPY3D call;
    lower(line, call);
    call.reserved0 = call.reserved1 = nullptr;
    return form == copy_form::synchronous ? cu.cuMemcpy3D(&call) : cu.cuMemcpy3DAsync(&call, stream);
}

error set_copy_node(const driver_table &cu, const shape &shape, graph_target &target) noexcept {
    CUcontext context = nullptr;
    if (call_result result = cu.cuCtxGetCurrent(&context)) return to_error(result);
    CUDA_MEMCPY3D call;
    lower(shape, call);
    call.reserved0 = call.reserved1 = nullptr;
    const error failed = put_node(cu.cuGraphAddMemcpyNode, cu.cuGraphExecMemcpyNodeSetParams, call, context, target);
    if (!is_change_refused(failed, target)) return failed;
    for (const shape_end *end : {&shape.source, &shape.destination})
        if (end->array)
            return replace(failed.status,
                           refuse_value(FERRY_ERROR_UNSUPPORTED,
                                        end == &shape.source ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION,
                                        FERRY_FIELD_ARRAY, reinterpret_cast<std::uintptr_t>(end->array)));
    if (shape.is_line()) return failed;
    const bool is_deep = shape.depth > 1;
    return replace(failed.status,
                   refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_EXTENT, is_deep ? FERRY_FIELD_DEPTH : FERRY_FIELD_HEIGHT,
                          numbers::at_most, 1, is_deep ? shape.depth : shape.height));
}

} // namespace ferry
