// Entry points that are still to come.
#include "softdriver/entry.h"

namespace ferry::softdriver {

CUresult cuDeviceGetP2PAttribute(int *, CUdevice_P2PAttribute, CUdevice, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuCtxDisablePeerAccess(CUcontext) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMipmappedArrayGetLevel(CUarray *, CUmipmappedArray, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuArrayGetPlane(CUarray *, CUarray, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }

} // namespace ferry::softdriver
