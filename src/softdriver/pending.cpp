// Entry points that are still to come.
#include "softdriver/entry.h"

namespace ferry::softdriver {

CUresult cuMipmappedArrayCreate(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMipmappedArrayGetLevel(CUarray *, CUmipmappedArray, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuArrayGetPlane(CUarray *, CUarray, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }

} // namespace ferry::softdriver
