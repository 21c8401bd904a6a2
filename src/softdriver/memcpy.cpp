// The driver's entry points for a single copy, each lowered to one copy_request.
#include "softdriver/copy.h"
#include "softdriver/entry.h"

namespace ferry::softdriver {

namespace {

place host(const void *address) {
    return {.type = CU_MEMORYTYPE_HOST, .address = reinterpret_cast<std::uintptr_t>(address)};
}
place device_at(CUdeviceptr address, CUcontext context = nullptr) {
    return {.type = CU_MEMORYTYPE_DEVICE, .address = address, .context = context};
}
place anywhere(CUdeviceptr address) { return {.type = CU_MEMORYTYPE_UNIFIED, .address = address}; }
place array_at(CUarray array, std::size_t offset) { return {.type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset}; }

std::uintptr_t address(CUmemorytype type, const void *host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<std::uintptr_t>(host) : device;
}

copy_request lower(const CUDA_MEMCPY2D &c) {
    return {{c.dstMemoryType, address(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstArray, c.dstXInBytes, c.dstY, 0, 0,
             c.dstPitch},
            {c.srcMemoryType, address(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcArray, c.srcXInBytes, c.srcY, 0, 0,
             c.srcPitch},
            {c.WidthInBytes, c.Height, 1}};
}

template <class Descriptor> copy_request lower(const Descriptor &c) {
    copy_request asked = {{c.dstMemoryType, address(c.dstMemoryType, c.dstHost, c.dstDevice), c.dstArray, c.dstXInBytes,
                           c.dstY, c.dstZ, c.dstLOD, c.dstPitch, c.dstHeight},
                          {c.srcMemoryType, address(c.srcMemoryType, c.srcHost, c.srcDevice), c.srcArray, c.srcXInBytes,
                           c.srcY, c.srcZ, c.srcLOD, c.srcPitch, c.srcHeight},
                          {c.WidthInBytes, c.Height, c.Depth}};
    if constexpr (std::is_same_v<Descriptor, CUDA_MEMCPY3D_PEER>) {
        asked.destination.context = c.dstContext;
        asked.source.context = c.srcContext;
        asked.peer = true;
    }
    return asked;
}

} // namespace

copy_request lower(const CUDA_MEMCPY3D &described) { return lower<CUDA_MEMCPY3D>(described); }

namespace {

// Uses enter(), because a driver that is not initialised reports that before it checks arguments.
CUresult refuse_no_descriptor() {
    return enter([](driver &) { return CUDA_ERROR_INVALID_VALUE; });
}

template <class Descriptor> CUresult copy_described(const Descriptor *described) {
    return described ? copy(lower(*described)) : refuse_no_descriptor();
}
template <class Descriptor> CUresult copy_described(const Descriptor *described, CUstream stream) {
    return described ? copy_async(lower(*described), stream) : refuse_no_descriptor();
}

} // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy({anywhere(to), anywhere(from), {n}}); }
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    return copy_async({anywhere(to), anywhere(from), {n}}, stream);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n) { return copy({device_at(to), host(from), {n}}); }
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n) { return copy({host(to), device_at(from), {n}}); }
CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n) {
    return copy({device_at(to), device_at(from), {n}});
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n, CUstream stream) {
    return copy_async({device_at(to), host(from), {n}}, stream);
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n, CUstream stream) {
    return copy_async({host(to), device_at(from), {n}}, stream);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream stream) {
    return copy_async({device_at(to), device_at(from), {n}}, stream);
}

CUresult cuMemcpyDtoA(CUarray to, size_t at, CUdeviceptr from, size_t n) {
    return copy({array_at(to, at), device_at(from), {n}});
}
CUresult cuMemcpyAtoD(CUdeviceptr to, CUarray from, size_t at, size_t n) {
    return copy({device_at(to), array_at(from, at), {n}});
}
CUresult cuMemcpyHtoA(CUarray to, size_t at, const void *from, size_t n) {
    return copy({array_at(to, at), host(from), {n}});
}
CUresult cuMemcpyAtoH(void *to, CUarray from, size_t at, size_t n) { return copy({host(to), array_at(from, at), {n}}); }
CUresult cuMemcpyAtoA(CUarray to, size_t at, CUarray from, size_t from_at, size_t n) {
    return copy({array_at(to, at), array_at(from, from_at), {n}});
}
CUresult cuMemcpyHtoAAsync(CUarray to, size_t at, const void *from, size_t n, CUstream stream) {
    return copy_async({array_at(to, at), host(from), {n}}, stream);
}
CUresult cuMemcpyAtoHAsync(void *to, CUarray from, size_t at, size_t n, CUstream stream) {
    return copy_async({host(to), array_at(from, at), {n}}, stream);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *described) { return copy_described(described); }
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *described) { return copy_described(described); }
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *described, CUstream stream) { return copy_described(described, stream); }
CUresult cuMemcpy3D(const CUDA_MEMCPY3D *described) { return copy_described(described); }
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *described, CUstream stream) { return copy_described(described, stream); }
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *described) { return copy_described(described); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *described, CUstream stream) {
    return copy_described(described, stream);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n) {
    return copy({device_at(to, to_context), device_at(from, from_context), {n}, true});
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n,
                           CUstream stream) {
    return copy_async({device_at(to, to_context), device_at(from, from_context), {n}, true}, stream);
}

} // namespace ferry::softdriver
