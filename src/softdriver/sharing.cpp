// Sharing memory and events with other processes: nothing is shared yet.
#include "softdriver/entry.h"
#include "softdriver/state.h"

namespace ferry::softdriver {

CUresult cuMemPoolExportToShareableHandle(void *, CUmemoryPool, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *, void *, CUmemAllocationHandleType, unsigned long long) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *, CUdeviceptr) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuMemPoolImportPointer(CUdeviceptr *, CUmemoryPool, CUmemPoolPtrExportData *) {
    return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle *, CUdeviceptr) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcOpenMemHandle(CUdeviceptr *, CUipcMemHandle, unsigned) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcCloseMemHandle(CUdeviceptr) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcGetEventHandle(CUipcEventHandle *, CUevent) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuIpcOpenEventHandle(CUevent *, CUipcEventHandle) { return CUDA_ERROR_NOT_SUPPORTED; }

} // namespace ferry::softdriver
