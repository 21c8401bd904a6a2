// The driver's fills. ferry fills narrow rows faster.
#include <cstring>

#include "exported.h"
#include "serve.h"

using namespace ferry_run;

namespace {

// `value_size` bytes of `value`, `width` times per row.
struct rectangle {
    CUstream stream;
    CUdeviceptr address;
    std::uint64_t pitch;
    unsigned value, value_size;
    std::uint64_t width, height;

    // 0 if the product does not fit 64 bits, which the driver rejects.
    std::uint64_t bytes() const noexcept {
        std::uint64_t product = 0;
        const bool is_over = __builtin_mul_overflow(width, std::uint64_t{value_size}, &product) ||
                             __builtin_mul_overflow(product, height, &product);
        return is_over ? 0 : product;
    }
};

verdict fill(const rectangle &asked) noexcept {
    const inside_ferry inside;
    const driver *const on = the_driver();
    if (!on) return {outcome::no_ferry, traffic::fill};
    unsigned is_managed = 0;
    on->cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, asked.address);
    CUdevice device = CU_DEVICE_INVALID;
    if (on->memory_type(asked.address) != CU_MEMORYTYPE_DEVICE || is_managed || on->is_synchronised(asked.address))
        return {outcome::other_memory, traffic::fill};
    if (on->cuCtxGetDevice(&device) != CUDA_SUCCESS || on->device_of(asked.address) != device)
        return {outcome::other_context, traffic::fill};
    if (asked.height > 1 && asked.pitch < asked.width * asked.value_size) return {outcome::refused, traffic::fill};
    if (outcome why; !may_enqueue(*on, asked.stream, why)) return {why, traffic::fill};
    ferry_fill_desc fill = {};
    ferry_place place;
    ferry_place_device_pitched(&place, FERRY_DEVICE_UNKNOWN, asked.address, asked.height > 1 ? asked.pitch : 0, 0);
    ferry_fill_desc_init(&fill, &place, asked.width * asked.value_size, asked.height, 1, &asked.value,
                         asked.value_size);
    const copying_instance ferry;
    if (!ferry.get()) return {outcome::no_ferry, traffic::fill};
    ferry_explanation plan = {};
    plan.struct_size = sizeof plan;
    if (ferry_fill_explain_async(ferry.get(), &fill, nullptr, asked.stream, &plan, nullptr) != FERRY_SUCCESS)
        return {outcome::refused, traffic::fill};
    const bool is_by_kernel = plan.route == FERRY_ROUTE_KERNEL, only_reports = the_settings().mode == mode::report_only;
    if (!is_by_kernel && (only_reports || !the_settings().takes_all))
        return {outcome::driver_is_fastest, traffic::fill};
    if (only_reports) return {outcome::report_only_kernel, traffic::fill};
    if (ferry_fill_async(ferry.get(), &fill, nullptr, asked.stream, nullptr, nullptr) != FERRY_SUCCESS)
        return {outcome::refused, traffic::fill};
    if (the_settings().flips_a_byte)
        on->cuMemsetD8Async(asked.address, static_cast<unsigned char>(asked.value ^ 0xff), 1, asked.stream);
    return {outcome::filled, traffic::fill};
}

template <entry self, class... Arguments> CUresult run(const rectangle &asked, Arguments... arguments) {
    const std::uint64_t bytes = asked.bytes();
    const auto try_ferry = [&]() -> verdict {
        if (bytes && (has_narrow_rows(bytes, asked.height) || the_settings().takes_all)) return fill(asked);
        return {asked.height > 1 ? outcome::small : outcome::driver_is_fastest, traffic::fill};
    };
    return pass_on<self>(bytes, try_ferry, arguments...);
}

} // namespace

// Defines the contiguous fill and the rectangular fill of one value type, synchronous and on a stream, each for both
// default streams.
#define FERRY_RUN_FILL(symbol, stream_of, type, parameters, arguments, pitch, height)                                  \
    FERRY_RUN_EXPORTED symbol parameters {                                                                             \
        return run<entry::symbol>({stream_of, at, pitch, value, sizeof(type), width, height},                          \
                                  FERRY_RUN_LIST arguments);                                                           \
    }
#define FERRY_RUN_FILLS(bits, type)                                                                                    \
    FERRY_RUN_FILL(cuMemsetD##bits##_v2, nullptr, type, (CUdeviceptr at, type value, size_t width),                    \
                   (at, value, width), 0, 1)                                                                           \
    FERRY_RUN_FILL(cuMemsetD##bits##_v2_ptds, own(nullptr), type, (CUdeviceptr at, type value, size_t width),          \
                   (at, value, width), 0, 1)                                                                           \
    FERRY_RUN_FILL(cuMemsetD##bits##Async, stream, type, (CUdeviceptr at, type value, size_t width, CUstream stream),  \
                   (at, value, width, stream), 0, 1)                                                                   \
    FERRY_RUN_FILL(cuMemsetD##bits##Async_ptsz, own(stream), type,                                                     \
                   (CUdeviceptr at, type value, size_t width, CUstream stream), (at, value, width, stream), 0, 1)      \
    FERRY_RUN_FILL(cuMemsetD2D##bits##_v2, nullptr, type,                                                              \
                   (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height),                            \
                   (at, pitch, value, width, height), pitch, height)                                                   \
    FERRY_RUN_FILL(cuMemsetD2D##bits##_v2_ptds, own(nullptr), type,                                                    \
                   (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height),                            \
                   (at, pitch, value, width, height), pitch, height)                                                   \
    FERRY_RUN_FILL(cuMemsetD2D##bits##Async, stream, type,                                                             \
                   (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, CUstream stream),           \
                   (at, pitch, value, width, height, stream), pitch, height)                                           \
    FERRY_RUN_FILL(cuMemsetD2D##bits##Async_ptsz, own(stream), type,                                                   \
                   (CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, CUstream stream),           \
                   (at, pitch, value, width, height, stream), pitch, height)

FERRY_RUN_FILLS(8, unsigned char)
FERRY_RUN_FILLS(16, unsigned short)
FERRY_RUN_FILLS(32, unsigned)
