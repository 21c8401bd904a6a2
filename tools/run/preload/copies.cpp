// The driver's copies: each as a request, and as ferry's descriptor.
#include "exported.h"
#include "serve.h"

using namespace ferry_run;

namespace {

template <class Handle> std::uint64_t address(Handle *pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

// If a context does not exist, the driver must reject the copy.
bool is_context(CUcontext context) noexcept {
    unsigned long long id = 0;
    const inside_ferry inside;
    const driver *const on = the_driver();
    return on && context && on->cuCtxGetId(context, &id) == CUDA_SUCCESS;
}

int32_t kind_of_place(end one) noexcept {
    constexpr int32_t kinds[] = {FERRY_KIND_HOST, FERRY_KIND_DEVICE, FERRY_KIND_ARRAY, FERRY_KIND_ANY};
    return kinds[static_cast<unsigned>(one)];
}

struct flat_end {
    end kind;
    std::uint64_t address = 0;
    CUarray array = nullptr;
    std::uint64_t x = 0; // for an array

    void describe(ferry_place &place) const noexcept {
        place.kind = kind_of_place(kind);
        place.device = FERRY_DEVICE_UNKNOWN;
        place.address = address;
        place.array = array;
        place.x = x;
    }
};

template <class Pointer> flat_end host(Pointer pointer) noexcept { return {end::host, address(pointer)}; }
flat_end device(CUdeviceptr pointer) noexcept { return {end::device, pointer}; }
flat_end any(CUdeviceptr pointer) noexcept { return {end::any, pointer}; }
flat_end row(CUarray array, std::size_t x) noexcept { return {end::array, 0, array, x}; }

// Contiguous bytes, including to or from a row of an array.
struct line {
    request asked;
    flat_end to, from;

    line(CUstream stream, bool is_async, const flat_end &destination, const flat_end &source, std::size_t bytes)
        : asked{stream, is_async, !destination.array && !source.array, source.kind, destination.kind, bytes, 1},
          to(destination), from(source) {}

    bool operator()(ferry_copy_desc &copy) const noexcept {
        from.describe(copy.source);
        to.describe(copy.destination);
        copy.width = asked.bytes;
        return asked.bytes != 0;
    }
};

struct peer_line : line {
    CUcontext to_context, from_context;

    peer_line(CUstream stream, bool is_async, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
              CUcontext from_context, std::size_t bytes)
        : line(stream, is_async, device(to), device(from), bytes), to_context(to_context), from_context(from_context) {}

    bool operator()(ferry_copy_desc &copy) const noexcept {
        return is_context(to_context) && is_context(from_context) && line::operator()(copy);
    }
};

// ---- Boxes

std::uint64_t depth_of(const CUDA_MEMCPY2D &) noexcept { return 1; }
template <class Call> std::uint64_t depth_of(const Call &call) noexcept { return call.Depth; }

bool is_memory_type(CUmemorytype type) noexcept { return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED; }

end end_of(CUmemorytype type) noexcept {
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return end::host;
    case CU_MEMORYTYPE_DEVICE:
        return end::device;
    case CU_MEMORYTYPE_ARRAY:
        return end::array;
    default:
        return end::any;
    }
}

// The fields of the driver's structs that 2D copies lack.
template <class Call> struct box_fields {
    static std::uint64_t source_height(const Call &call) noexcept { return call.srcHeight; }
    static std::uint64_t destination_height(const Call &call) noexcept { return call.dstHeight; }
    static std::uint64_t source_z(const Call &call) noexcept { return call.srcZ; }
    static std::uint64_t destination_z(const Call &call) noexcept { return call.dstZ; }
    static bool has_levels(const Call &call) noexcept { return call.srcLOD || call.dstLOD; }
};
template <> struct box_fields<CUDA_MEMCPY2D> {
    static std::uint64_t source_height(const CUDA_MEMCPY2D &call) noexcept { return call.srcY + call.Height; }
    static std::uint64_t destination_height(const CUDA_MEMCPY2D &call) noexcept { return call.dstY + call.Height; }
    static std::uint64_t source_z(const CUDA_MEMCPY2D &) noexcept { return 0; }
    static std::uint64_t destination_z(const CUDA_MEMCPY2D &) noexcept { return 0; }
    static bool has_levels(const CUDA_MEMCPY2D &) noexcept { return false; }
};
bool has_only_known_fields(const CUDA_MEMCPY3D &call) noexcept { return !call.reserved0 && !call.reserved1; }
bool has_only_known_fields(const CUDA_MEMCPY3D_PEER &call) noexcept {
    return is_context(call.srcContext) && is_context(call.dstContext);
}
bool has_only_known_fields(const CUDA_MEMCPY2D &) noexcept { return true; }

template <class Call> struct box {
    const Call *call;
    request asked;

    box(CUstream stream, bool is_async, const Call *given) : call(given) {
        asked = {stream, is_async, false, end::any, end::any, 0, 0};
        if (!call) return;
        asked.source = end_of(call->srcMemoryType);
        asked.destination = end_of(call->dstMemoryType);
        if (__builtin_mul_overflow(call->Height, depth_of(*call), &asked.rows) ||
            __builtin_mul_overflow(call->WidthInBytes, asked.rows, &asked.bytes))
            asked.bytes = 0; // the driver rejects it
    }

    // If ferry and the driver interpret a field differently, the driver performs the copy: an extent of 0, a required
    // pitch or height of 0, a level, or another memory type.
    bool operator()(ferry_copy_desc &copy) const noexcept {
        using fields = box_fields<Call>;
        if (!call || !asked.bytes || fields::has_levels(*call) || !has_only_known_fields(*call)) return false;
        if (!is_memory_type(call->srcMemoryType) || !is_memory_type(call->dstMemoryType)) return false;
        copy.width = call->WidthInBytes;
        copy.height = call->Height;
        copy.depth = depth_of(*call);
        return describe(copy.source, asked.source, call->srcHost, call->srcDevice, call->srcArray, call->srcPitch,
                        fields::source_height(*call), call->srcXInBytes, call->srcY, fields::source_z(*call)) &&
               describe(copy.destination, asked.destination, call->dstHost, call->dstDevice, call->dstArray,
                        call->dstPitch, fields::destination_height(*call), call->dstXInBytes, call->dstY,
                        fields::destination_z(*call));
    }

private:
    bool describe(ferry_place &place, end kind, const void *host, CUdeviceptr device, CUarray array,
                  std::uint64_t pitch, std::uint64_t height, std::uint64_t x, std::uint64_t y,
                  std::uint64_t z) const noexcept {
        place.kind = kind_of_place(kind);
        place.device = FERRY_DEVICE_UNKNOWN;
        place.x = x;
        place.y = y;
        place.z = z;
        if (kind == end::array) {
            place.array = array;
            return array != nullptr;
        }
        place.address = kind == end::host ? address(host) : device;
        const bool has_slices = depth_of(*call) > 1 || z, has_rows = call->Height > 1 || y || has_slices;
        // The driver rejects a pitch or height that is too small even if it is not used.
        place.row_pitch = pitch;
        place.slice_height = height;
        if (!has_rows && !pitch && x) place.row_pitch = x + call->WidthInBytes;
        return place.address && (!has_rows || pitch) && (!has_slices || height);
    }
};
template <class Call> box(CUstream, bool, const Call *) -> box<Call>;

// `copy` fills a zeroed descriptor, or returns false if ferry does not support the copy.
template <entry self, class Copy, class... Arguments> CUresult run(const Copy &copy, Arguments... arguments) {
    const auto try_ferry = [&]() -> verdict {
        if (!is_worth_looking(copy.asked)) return {outcome::small, kind_by_name(copy.asked)};
        ferry_copy_desc described = {};
        if (!copy(described)) return {outcome::unserved_call, kind_by_name(copy.asked)};
        return serve(copy.asked, described);
    };
    return pass_on<self>(copy.asked.bytes, try_ferry, arguments...);
}

} // namespace

// Defines a function and its variant that uses the per-thread default stream. `copy` is the copy on the stream `on`.
#define FERRY_RUN_COPY(symbol, suffix, stream, parameters, arguments, copy)                                            \
    FERRY_RUN_EXPORTED symbol parameters {                                                                             \
        const CUstream on = stream;                                                                                    \
        return run<entry::symbol>(copy, FERRY_RUN_LIST arguments);                                                     \
    }                                                                                                                  \
    FERRY_RUN_EXPORTED symbol##suffix parameters {                                                                     \
        const CUstream on = own(stream);                                                                               \
        return run<entry::symbol##suffix>(copy, FERRY_RUN_LIST arguments);                                             \
    }

// clang-format off
FERRY_RUN_COPY(cuMemcpy, _ptds, nullptr, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
               (to, from, bytes), (line(on, false, any(to), any(from), bytes)))
FERRY_RUN_COPY(cuMemcpyAsync, _ptsz, stream, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), (line(on, true, any(to), any(from), bytes)))
FERRY_RUN_COPY(cuMemcpyHtoD_v2, _ptds, nullptr, (CUdeviceptr to, const void *from, size_t bytes),
               (to, from, bytes), (line(on, false, device(to), host(from), bytes)))
FERRY_RUN_COPY(cuMemcpyHtoDAsync_v2, _ptsz, stream, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), (line(on, true, device(to), host(from), bytes)))
FERRY_RUN_COPY(cuMemcpyDtoH_v2, _ptds, nullptr, (void *to, CUdeviceptr from, size_t bytes),
               (to, from, bytes), (line(on, false, host(to), device(from), bytes)))
FERRY_RUN_COPY(cuMemcpyDtoHAsync_v2, _ptsz, stream, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), (line(on, true, host(to), device(from), bytes)))
FERRY_RUN_COPY(cuMemcpyDtoD_v2, _ptds, nullptr, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
               (to, from, bytes), (line(on, false, device(to), device(from), bytes)))
FERRY_RUN_COPY(cuMemcpyDtoDAsync_v2, _ptsz, stream, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
               (to, from, bytes, stream), (line(on, true, device(to), device(from), bytes)))
FERRY_RUN_COPY(cuMemcpyDtoA_v2, _ptds, nullptr, (CUarray to, size_t x, CUdeviceptr from, size_t bytes),
               (to, x, from, bytes), (line(on, false, row(to, x), device(from), bytes)))
FERRY_RUN_COPY(cuMemcpyAtoD_v2, _ptds, nullptr, (CUdeviceptr to, CUarray from, size_t x, size_t bytes),
               (to, from, x, bytes), (line(on, false, device(to), row(from, x), bytes)))
FERRY_RUN_COPY(cuMemcpyHtoA_v2, _ptds, nullptr, (CUarray to, size_t x, const void *from, size_t bytes),
               (to, x, from, bytes), (line(on, false, row(to, x), host(from), bytes)))
FERRY_RUN_COPY(cuMemcpyHtoAAsync_v2, _ptsz, stream,
               (CUarray to, size_t x, const void *from, size_t bytes, CUstream stream),
               (to, x, from, bytes, stream), (line(on, true, row(to, x), host(from), bytes)))
FERRY_RUN_COPY(cuMemcpyAtoH_v2, _ptds, nullptr, (void *to, CUarray from, size_t x, size_t bytes),
               (to, from, x, bytes), (line(on, false, host(to), row(from, x), bytes)))
FERRY_RUN_COPY(cuMemcpyAtoHAsync_v2, _ptsz, stream, (void *to, CUarray from, size_t x, size_t bytes, CUstream stream),
               (to, from, x, bytes, stream), (line(on, true, host(to), row(from, x), bytes)))
FERRY_RUN_COPY(cuMemcpyAtoA_v2, _ptds, nullptr, (CUarray to, size_t to_x, CUarray from, size_t from_x, size_t bytes),
               (to, to_x, from, from_x, bytes), (line(on, false, row(to, to_x), row(from, from_x), bytes)))
FERRY_RUN_COPY(cuMemcpyPeer, _ptds, nullptr,
               (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes),
               (to, to_context, from, from_context, bytes),
               (peer_line(on, false, to, to_context, from, from_context, bytes)))
FERRY_RUN_COPY(cuMemcpyPeerAsync, _ptsz, stream,
               (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                CUstream stream),
               (to, to_context, from, from_context, bytes, stream),
               (peer_line(on, true, to, to_context, from, from_context, bytes)))
FERRY_RUN_COPY(cuMemcpy2D_v2, _ptds, nullptr, (const CUDA_MEMCPY2D *call), (call), (box(on, false, call)))
FERRY_RUN_COPY(cuMemcpy2DUnaligned_v2, _ptds, nullptr, (const CUDA_MEMCPY2D *call), (call), (box(on, false, call)))
FERRY_RUN_COPY(cuMemcpy2DAsync_v2, _ptsz, stream, (const CUDA_MEMCPY2D *call, CUstream stream), (call, stream),
               (box(on, true, call)))
FERRY_RUN_COPY(cuMemcpy3D_v2, _ptds, nullptr, (const CUDA_MEMCPY3D *call), (call), (box(on, false, call)))
FERRY_RUN_COPY(cuMemcpy3DAsync_v2, _ptsz, stream, (const CUDA_MEMCPY3D *call, CUstream stream), (call, stream),
               (box(on, true, call)))
FERRY_RUN_COPY(cuMemcpy3DPeer, _ptds, nullptr, (const CUDA_MEMCPY3D_PEER *call), (call), (box(on, false, call)))
FERRY_RUN_COPY(cuMemcpy3DPeerAsync, _ptsz, stream, (const CUDA_MEMCPY3D_PEER *call, CUstream stream), (call, stream),
               (box(on, true, call)))
// clang-format on
