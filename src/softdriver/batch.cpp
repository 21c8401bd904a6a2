// The batch calls: many unordered copies in one call. A batch is checked as a whole, so a rejected call has enqueued
// nothing.
#include "base/checked.h"
#include "driver/formats.h"
#include "softdriver/copy.h"
#include "softdriver/entry.h"

#include <algorithm>

namespace ferry::softdriver {

namespace {

constexpr std::size_t no_copy = SIZE_MAX; // the value of failIdx if the call itself is invalid

// Both batch calls reject the legacy stream under either of its names, and break the capture of a capturing stream.
stream &find_stream_of_batch(driver &cu, CUstream handle) {
    require(handle && handle != CU_STREAM_LEGACY);
    stream &on = find_stream(cu, handle);
    if (on.capturing) invalidate(*on.capturing, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return on;
}

CUmemcpySrcAccessOrder checked(CUmemcpySrcAccessOrder order) {
    require(order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
    return order;
}

// Enqueues the last copy first, so that a program that relies on an order fails here.
operations run(driver &cu, const std::vector<copy_request> &copies, CUstream stream, std::size_t &at_fault) {
    for (at_fault = 0; at_fault < copies.size(); ++at_fault)
        check_copy(cu, copies[at_fault]);
    at_fault = no_copy;
    operations pending;
    for (std::size_t i = copies.size(); i-- > 0;)
        pending.push_back(start_copy(cu, copies[i], stream, true));
    return pending;
}

place pointer_at(CUdeviceptr address) { return {.type = CU_MEMORYTYPE_UNIFIED, .address = address}; }

CUresult copy_lines(const CUdeviceptr *to, const CUdeviceptr *from, const std::size_t *sizes, std::size_t count,
                    const CUmemcpyAttributes *attributes, const std::size_t *first_of, std::size_t attribute_count,
                    std::size_t *fail_index, CUstream stream) noexcept {
    std::size_t at_fault = no_copy;
    const CUresult result = enter([&](driver &cu) {
        find_stream_of_batch(cu, stream);
        require(to && from && sizes && count && attributes && first_of);
        require(attribute_count && attribute_count <= count && first_of[0] == 0);
        for (std::size_t i = 1; i < attribute_count; ++i)
            require(first_of[i] > first_of[i - 1] && first_of[i] < count);
        std::vector<copy_request> copies(count);
        std::size_t of = 0;
        for (std::size_t i = 0; i < count; ++i) {
            at_fault = i;
            if (of + 1 < attribute_count && first_of[of + 1] == i) ++of;
            require(to[i] && from[i] && sizes[i]);
            copies[i] = {.destination = pointer_at(to[i]),
                         .source = pointer_at(from[i]),
                         .size = {sizes[i]},
                         .order = checked(attributes[of].srcAccessOrder)};
        }
        return run(cu, copies, stream, at_fault);
    });
    if (fail_index && result) *fail_index = at_fault;
    return result;
}

// Returns the bytes of an array's element, or 0 for a pointer.
std::size_t element_size(driver &cu, const CUmemcpy3DOperand &operand) {
    if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return 0;
    const array *const of = cu.arrays.find(operand.op.array.array);
    require(of, CUDA_ERROR_INVALID_HANDLE);
    return elements_of(of->descriptor).size;
}

place place_of(const CUmemcpy3DOperand &operand, std::size_t element) {
    const auto bytes = [&](std::size_t elements) {
        require(multiply(elements, element, elements));
        return elements;
    };
    if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
        return {.type = CU_MEMORYTYPE_ARRAY,
                .array = operand.op.array.array,
                .x = bytes(operand.op.array.offset.x),
                .y = operand.op.array.offset.y,
                .z = operand.op.array.offset.z};
    require(operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER && operand.op.ptr.ptr);
    place at = pointer_at(operand.op.ptr.ptr);
    at.pitch = bytes(operand.op.ptr.rowLength);
    at.height = operand.op.ptr.layerHeight;
    return at;
}

CUresult enqueue_boxes(std::size_t count, const CUDA_MEMCPY3D_BATCH_OP *operations_of_call, unsigned long long flags,
                       std::size_t *fail_index, CUstream stream) noexcept {
    std::size_t at_fault = no_copy;
    const CUresult result = enter([&](driver &cu) {
        find_stream_of_batch(cu, stream);
        require(count && operations_of_call && flags == 0);
        std::vector<copy_request> copies(count);
        for (std::size_t i = 0; i < count; ++i) {
            at_fault = i;
            const CUDA_MEMCPY3D_BATCH_OP &one = operations_of_call[i];
            require(one.extent.width && one.extent.height && one.extent.depth);
            const std::size_t of_source = element_size(cu, one.src), of_destination = element_size(cu, one.dst);
            require(!of_source || !of_destination || of_source == of_destination);
            const std::size_t element = std::max({of_source, of_destination, std::size_t{1}});
            copies[i] = {.destination = place_of(one.dst, element),
                         .source = place_of(one.src, element),
                         .size = {one.extent.width * element, one.extent.height, one.extent.depth},
                         .order = checked(one.srcAccessOrder)};
        }
        return run(cu, copies, stream, at_fault);
    });
    if (fail_index && result) *fail_index = at_fault;
    return result;
}

} // namespace

CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *first_of, size_t attribute_count, CUstream stream) {
    return copy_lines(to, from, sizes, count, attributes, first_of, attribute_count, nullptr, stream);
}
CUresult cuMemcpyBatchAsync(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *first_of, size_t attribute_count,
                            size_t *fail_index, CUstream stream) {
    return copy_lines(to, from, sizes, count, attributes, first_of, attribute_count, fail_index, stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations_of_call, unsigned long long flags,
                              CUstream stream) {
    return enqueue_boxes(count, operations_of_call, flags, nullptr, stream);
}
CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP *operations_of_call, size_t *fail_index,
                              unsigned long long flags, CUstream stream) {
    return enqueue_boxes(count, operations_of_call, flags, fail_index, stream);
}

} // namespace ferry::softdriver
