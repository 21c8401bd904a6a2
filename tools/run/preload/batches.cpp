// The driver's batches. ferry copies thousands of small pieces in one launch.
#include <algorithm>
#include <memory>
#include <new>

#include "exported.h"
#include "ferry/ferry_memory.h"
#include "serve.h"

using namespace ferry_run;

namespace {

// Other orders are rejected by the driver, or ferry does not support them.
bool is_usual(CUmemcpySrcAccessOrder order) noexcept {
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}
bool has_hint(const CUmemLocation &hint) noexcept { return hint.type != CUmemLocationType{} || hint.id != 0; }
bool is_default_legacy(CUstream stream) noexcept { return !stream || stream == CU_STREAM_LEGACY; }

// For pageable ends, ferry would read the source and write the destination after the call has returned.
template <class End> bool is_any_pageable(const driver &on, std::size_t count, const End &end) noexcept {
    for (std::size_t i = 0; i < count; ++i)
        if (const CUdeviceptr address = end(i); address && !on.memory_type(address)) return true;
    return false;
}

// Sources are read in stream order, which the driver's orders STREAM and ANY both permit.
constexpr ferry_copy_options in_stream_order = {
    sizeof(ferry_copy_options), 0, FERRY_ROUTE_AUTO, FERRY_PRIORITY_NORMAL, FERRY_SOURCE_ORDER_STREAM, 0, 0};

// Pieces that ferry can copy together are worth serving. The driver copies other pieces individually at the same speed.
template <class Explain, class Copy, class Source, class Destination>
verdict serve_batch(CUstream stream, std::size_t count, const Explain &explain, const Copy &copy, const Source &source,
                    const Destination &destination) noexcept {
    verdict found = {outcome::as_batch, traffic::batch};
    const driver *const on = the_driver();
    if (!on) return {outcome::no_ferry, traffic::batch};
    if (!may_enqueue(*on, stream, found.what)) return found;
    if (is_any_pageable(*on, count, source) || is_any_pageable(*on, count, destination))
        return {outcome::other_memory, traffic::batch};
    const copying_instance ferry;
    if (!ferry.get()) return {outcome::no_ferry, traffic::batch};
    ferry_batch_explanation plan = {};
    plan.struct_size = sizeof plan;
    if (explain(ferry.get(), plan) != FERRY_SUCCESS) return {outcome::refused, traffic::batch};
    const std::uint64_t together = plan.kernels.copies + plan.staged.copies + plan.broadcasts.copies;
    if (!together && !the_settings().takes_all) return {outcome::driver_is_fastest, traffic::batch};
    if (the_settings().mode == mode::report_only) return {outcome::report_only_kernel, traffic::batch};
    if (copy(ferry.get()) != FERRY_SUCCESS) return {outcome::refused, traffic::batch};
    found.what = outcome::as_batch;
    if (the_settings().flips_a_byte && on->memory_type(destination(0)) == CU_MEMORYTYPE_DEVICE)
        on->cuMemsetD8Async(destination(0), 0xa5, 1, stream);
    return found;
}

template <entry self, class Batch, class... Arguments> CUresult run(const Batch &asked, Arguments... arguments) {
    const auto try_ferry = [&] {
        const inside_ferry inside;
        return asked.serve();
    };
    return pass_on<self>(is_on() && !is_inside() ? asked.bytes() : 0, try_ferry, arguments...);
}

// ---- Lines

struct lines {
    CUstream stream;
    const CUdeviceptr *to, *from;
    const size_t *sizes;
    size_t count;
    const CUmemcpyAttributes *attributes;
    const size_t *first_of;
    size_t attribute_count;

    bool is_valid() const noexcept {
        if (!count || !to || !from || !sizes || !attributes || !first_of || !attribute_count) return false;
        if (is_default_legacy(stream) || attribute_count > count || first_of[0] != 0) return false;
        for (size_t i = 0; i < attribute_count; ++i)
            if (!is_usual(attributes[i].srcAccessOrder) || attributes[i].flags || has_hint(attributes[i].srcLocHint) ||
                has_hint(attributes[i].dstLocHint) || (i && first_of[i] <= first_of[i - 1]) || first_of[i] >= count)
                return false;
        for (size_t i = 0; i < count; ++i)
            if (!to[i] || !from[i] || !sizes[i]) return false;
        return true;
    }

    std::uint64_t bytes() const noexcept {
        std::uint64_t sum = 0;
        for (size_t i = 0; sizes && i < count; ++i)
            sum += sizes[i];
        return sum;
    }

    verdict serve() const noexcept {
        static_assert(sizeof(CUdeviceptr) == sizeof(uint64_t) && sizeof(size_t) == sizeof(uint64_t));
        if (!is_valid()) return {outcome::unserved_call, traffic::batch};
        ferry_piece_list pieces;
        ferry_piece_list_set_arrays(&pieces, reinterpret_cast<const uint64_t *>(to),
                                    reinterpret_cast<const uint64_t *>(from), sizes, count);
        return serve_batch(
            stream, count,
            [&](ferry_instance *ferry, ferry_batch_explanation &plan) {
                return ferry_copy_pieces_explain_async(ferry, &pieces, &in_stream_order, stream, &plan, nullptr);
            },
            [&](ferry_instance *ferry) {
                return ferry_copy_pieces_async(ferry, &pieces, &in_stream_order, stream, nullptr, nullptr);
            },
            [&](size_t i) { return from[i]; }, [&](size_t i) { return to[i]; });
    }
};

// ---- Boxes

struct boxes {
    CUstream stream;
    const CUDA_MEMCPY3D_BATCH_OP *all;
    size_t count;
    unsigned long long flags;

    // Extents and pitches count elements if either end is an array, and bytes otherwise.
    static std::uint64_t element_of(ferry_instance *ferry, const CUmemcpy3DOperand &operand) noexcept {
        if (operand.type != CU_MEMCPY_OPERAND_TYPE_ARRAY) return 1;
        ferry_array_desc desc = {};
        desc.struct_size = sizeof desc;
        uint32_t element = 0;
        return ferry_array_get_info(ferry, operand.op.array.array, &desc, &element, nullptr) == FERRY_SUCCESS ? element
                                                                                                              : 0;
    }

    static std::uint64_t element_of_both(ferry_instance *ferry, const CUDA_MEMCPY3D_BATCH_OP &one) noexcept {
        return std::max(element_of(ferry, one.src), element_of(ferry, one.dst));
    }

    static bool describe(const CUmemcpy3DOperand &operand, std::uint64_t element, const CUextent3D &extent,
                         ferry_place &place) noexcept {
        place.device = FERRY_DEVICE_UNKNOWN;
        if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
            place.kind = FERRY_KIND_ARRAY;
            place.array = operand.op.array.array;
            place.y = operand.op.array.offset.y;
            place.z = operand.op.array.offset.z;
            return !__builtin_mul_overflow(operand.op.array.offset.x, element, &place.x);
        }
        if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return false;
        place.kind = FERRY_KIND_ANY;
        place.address = operand.op.ptr.ptr;
        const size_t row_length = operand.op.ptr.rowLength, layer_height = operand.op.ptr.layerHeight;
        if (has_hint(operand.op.ptr.locHint)) return false;
        if ((row_length && row_length < extent.width) || (layer_height && layer_height < extent.height)) return false;
        if (extent.depth > 1) place.slice_height = layer_height;
        if ((extent.height > 1 || extent.depth > 1) && __builtin_mul_overflow(row_length, element, &place.row_pitch))
            return false;
        return place.address != 0;
    }

    bool describe(ferry_instance *ferry, const CUDA_MEMCPY3D_BATCH_OP &one, ferry_copy_desc &copy) const noexcept {
        const std::uint64_t element = element_of_both(ferry, one);
        if (!is_usual(one.srcAccessOrder) || one.flags || !element) return false;
        if (!one.extent.width || !one.extent.height || !one.extent.depth) return false;
        if (__builtin_mul_overflow(one.extent.width, element, &copy.width)) return false;
        copy.height = one.extent.height;
        copy.depth = one.extent.depth;
        return describe(one.src, element, one.extent, copy.source) &&
               describe(one.dst, element, one.extent, copy.destination);
    }

    bool describe_all(ferry_copy_desc *copies) const noexcept {
        const copying_instance ferry;
        bool are_described = ferry.get() != nullptr;
        for (size_t i = 0; are_described && i < count; ++i)
            are_described = describe(ferry.get(), all[i], copies[i]);
        return are_described;
    }

    static std::uint64_t known_element(const CUDA_MEMCPY3D_BATCH_OP &one) noexcept {
        const copying_instance ferry;
        return ferry.get() ? std::max(element_of_both(ferry.get(), one), std::uint64_t{1}) : 1;
    }

    std::uint64_t bytes() const noexcept {
        const inside_ferry inside;
        std::uint64_t sum = 0;
        for (size_t i = 0; all && i < count; ++i) {
            const bool has_array =
                all[i].src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY || all[i].dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
            const std::uint64_t element = has_array && the_driver() ? known_element(all[i]) : 1;
            sum += element * all[i].extent.width * all[i].extent.height * all[i].extent.depth;
        }
        return sum;
    }

    verdict serve() const noexcept {
        if (!the_driver()) return {outcome::no_ferry, traffic::batch};
        if (!count || !all || flags || is_default_legacy(stream)) return {outcome::unserved_call, traffic::batch};
        const std::unique_ptr<ferry_copy_desc[]> copies(new (std::nothrow) ferry_copy_desc[count]());
        if (!copies) return {outcome::unserved_call, traffic::batch};
        if (!describe_all(copies.get())) return {outcome::unserved_call, traffic::batch};
        return serve_batch(
            stream, count,
            [&](ferry_instance *ferry, ferry_batch_explanation &plan) {
                return ferry_copy_batch_explain_async(ferry, copies.get(), count, &in_stream_order, stream, &plan,
                                                      nullptr);
            },
            [&](ferry_instance *ferry) {
                return ferry_copy_batch_async(ferry, copies.get(), count, &in_stream_order, stream, nullptr, nullptr);
            },
            [&](size_t i) { return CUdeviceptr{copies[i].source.address}; },
            [&](size_t i) { return CUdeviceptr{copies[i].destination.address}; });
    }
};

} // namespace

#define FERRY_RUN_LINE_BATCH(symbol, stream_of, fail_index_parameter, fail_index)                                      \
    FERRY_RUN_EXPORTED symbol(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count,                         \
                              CUmemcpyAttributes *attributes, size_t *first_of,                                        \
                              size_t attribute_count fail_index_parameter, CUstream stream) {                          \
        return run<entry::symbol>(lines{stream_of, to, from, sizes, count, attributes, first_of, attribute_count}, to, \
                                  from, sizes, count, attributes, first_of, attribute_count fail_index, stream);       \
    }
#define FERRY_RUN_BOX_BATCH(symbol, stream_of, fail_index_parameter, fail_index)                                       \
    FERRY_RUN_EXPORTED symbol(size_t count, CUDA_MEMCPY3D_BATCH_OP *all fail_index_parameter,                          \
                              unsigned long long flags, CUstream stream) {                                             \
        return run<entry::symbol>(boxes{stream_of, all, count, flags}, count, all fail_index, flags, stream);          \
    }
#define FERRY_RUN_COMMA ,
FERRY_RUN_LINE_BATCH(cuMemcpyBatchAsync, stream, FERRY_RUN_COMMA size_t *failed, FERRY_RUN_COMMA failed)
FERRY_RUN_LINE_BATCH(cuMemcpyBatchAsync_ptsz, own(stream), FERRY_RUN_COMMA size_t *failed, FERRY_RUN_COMMA failed)
FERRY_RUN_LINE_BATCH(cuMemcpyBatchAsync_v2, stream, , )
FERRY_RUN_LINE_BATCH(cuMemcpyBatchAsync_v2_ptsz, own(stream), , )
FERRY_RUN_BOX_BATCH(cuMemcpy3DBatchAsync, stream, FERRY_RUN_COMMA size_t *failed, FERRY_RUN_COMMA failed)
FERRY_RUN_BOX_BATCH(cuMemcpy3DBatchAsync_ptsz, own(stream), FERRY_RUN_COMMA size_t *failed, FERRY_RUN_COMMA failed)
FERRY_RUN_BOX_BATCH(cuMemcpy3DBatchAsync_v2, stream, , )
FERRY_RUN_BOX_BATCH(cuMemcpy3DBatchAsync_v2_ptsz, own(stream), , )
