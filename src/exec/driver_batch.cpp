#include "exec/driver_batch.h"

namespace ferry {

bool has_line_batches(const driver_table &cu) noexcept { return cu.cuMemcpyBatchAsync || cu.cuMemcpyBatchAsync_v12080; }
bool has_box_batches(const driver_table &cu) noexcept {
    return cu.cuMemcpy3DBatchAsync || cu.cuMemcpy3DBatchAsync_v12080;
}

namespace {

// ANY may read a source before earlier work on the stream has written it (rapidsai/cudf issue 23517).
constexpr CUmemcpySrcAccessOrder in_order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;

} // namespace

void line_batch::clear() noexcept {
    destinations.clear();
    sources.clear();
    sizes.clear();
}

bool line_batch::append(const batch_piece *pieces, std::size_t count) noexcept {
    const std::size_t whole = sizes.size() + count;
    if (!destinations.reserve(whole) || !sources.reserve(whole) || !sizes.reserve(whole)) return false;
    for (const batch_piece *piece = pieces; piece != pieces + count; ++piece) {
        destinations.append_reserved(piece->destination);
        sources.append_reserved(piece->source);
        sizes.append_reserved(piece->size);
    }
    return true;
}

call_result run_line_batch(const driver_table &cu, const line_batch &lines, std::size_t first, std::size_t count,
                           CUstream stream) noexcept {
    CUmemcpyAttributes attributes = {};
    attributes.srcAccessOrder = in_order;
    std::size_t first_of = 0, fail_index = 0;
    // The driver only reads these arrays.
    auto *const to = const_cast<CUdeviceptr *>(lines.destinations.begin() + first);
    auto *const from = const_cast<CUdeviceptr *>(lines.sources.begin() + first);
    auto *const sizes = const_cast<std::size_t *>(lines.sizes.begin() + first);
    if (cu.cuMemcpyBatchAsync) return cu.cuMemcpyBatchAsync(to, from, sizes, count, &attributes, &first_of, 1, stream);
    return cu.cuMemcpyBatchAsync_v12080(to, from, sizes, count, &attributes, &first_of, 1, &fail_index, stream);
}

namespace {

bool lower_end(const shape_end &end, const shape &box, std::uint64_t element, CUmemcpy3DOperand &operand) noexcept {
    if (end.array) {
        operand.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
        operand.op.array.array = end.array;
        operand.op.array.offset = {end.x / element, end.y, end.z};
        return end.x % element == 0;
    }
    const bool has_rows = box.height > 1 || box.depth > 1, has_slices = box.depth > 1;
    operand.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    operand.op.ptr.ptr = end.span.first;
    operand.op.ptr.rowLength = has_rows ? end.row_pitch / element : 0;
    operand.op.ptr.layerHeight = has_slices ? end.slice_height : 0;
    return !has_rows || end.row_pitch % element == 0;
}

} // namespace

bool lower(const shape &box, std::uint64_t element, CUDA_MEMCPY3D_BATCH_OP &call) noexcept {
    call = {};
    call.srcAccessOrder = in_order;
    if (element == 0 || box.width % element) return false;
    call.extent = {box.width / element, box.height, box.depth};
    return lower_end(box.source, box, element, call.src) && lower_end(box.destination, box, element, call.dst);
}

call_result run_box_batch(const driver_table &cu, const CUDA_MEMCPY3D_BATCH_OP *boxes, std::size_t count,
                          CUstream stream) noexcept {
    auto *const operations = const_cast<CUDA_MEMCPY3D_BATCH_OP *>(boxes); // the driver only reads them
    std::size_t fail_index = 0;
    if (cu.cuMemcpy3DBatchAsync) return cu.cuMemcpy3DBatchAsync(count, operations, 0, stream);
    return cu.cuMemcpy3DBatchAsync_v12080(count, operations, &fail_index, 0, stream);
}

} // namespace ferry
