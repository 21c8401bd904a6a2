/*
 * The part of the driver API that copies.c calls, for machines without CUDA's headers. Names map to symbols as in
 * cuda.h, and with CUDA_API_PER_THREAD_DEFAULT_STREAM to the variants for per-thread default streams.
 */
#ifndef FERRY_TESTS_DRIVER_API_H
#define FERRY_TESTS_DRIVER_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define PTDS(symbol) symbol##_ptds
#define PTSZ(symbol) symbol##_ptsz
#else
#define PTDS(symbol) symbol
#define PTSZ(symbol) symbol
#endif

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUarray_st *CUarray;
typedef void (*CUhostFn)(void *);
typedef int CUpointer_attribute;
typedef int CUdriverProcAddressQueryResult;
typedef uint64_t cuuint64_t;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_READY = 600,
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_AD_FORMAT_UNSIGNED_INT8 = 1,
    CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
    CU_STREAM_DEFAULT = 0,
    CU_EVENT_DEFAULT = 0,
    CU_GET_PROC_ADDRESS_DEFAULT = 0,
    CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1,
    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2,
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
};

typedef struct {
    size_t Width, Height;
    int Format;
    unsigned NumChannels;
} CUDA_ARRAY_DESCRIPTOR;

typedef struct {
    size_t srcXInBytes, srcY;
    int srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;

#define cuArrayCreate cuArrayCreate_v2
#define cuCtxPopCurrent cuCtxPopCurrent_v2
#define cuCtxPushCurrent cuCtxPushCurrent_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuEventElapsedTime cuEventElapsedTime_v2
#define cuEventRecord PTSZ(cuEventRecord)
#define cuGetProcAddress cuGetProcAddress_v2
#define cuLaunchHostFunc PTSZ(cuLaunchHostFunc)
#define cuMemAlloc cuMemAlloc_v2
#define cuMemAllocHost cuMemAllocHost_v2
#define cuMemFree cuMemFree_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemcpy PTDS(cuMemcpy)
#define cuMemcpy2D PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DAsync PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpyAsync PTSZ(cuMemcpyAsync)
#define cuMemcpyAtoH PTDS(cuMemcpyAtoH_v2)
#define cuMemcpyDtoD PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyDtoDAsync PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpyDtoH PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoHAsync PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyHtoA PTDS(cuMemcpyHtoA_v2)
#define cuMemcpyHtoD PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyHtoDAsync PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemcpyPeer PTDS(cuMemcpyPeer)
#define cuMemsetD16 PTDS(cuMemsetD16_v2)
#define cuMemsetD2D8 PTDS(cuMemsetD2D8_v2)
#define cuMemsetD32 PTDS(cuMemsetD32_v2)
#define cuMemsetD8 PTDS(cuMemsetD8_v2)
#define cuMemsetD8Async PTSZ(cuMemsetD8Async)
#define cuStreamDestroy cuStreamDestroy_v2
#define cuStreamQuery PTSZ(cuStreamQuery)
#define cuStreamSynchronize PTSZ(cuStreamSynchronize)
#define cuStreamWaitEvent PTSZ(cuStreamWaitEvent)

CUresult cuInit(unsigned);
CUresult cuDriverGetVersion(int *);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuGetProcAddress(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
CUresult cuDeviceGetCount(int *);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuCtxPushCurrent(CUcontext);
CUresult cuCtxPopCurrent(CUcontext *);
CUresult cuCtxGetApiVersion(CUcontext, unsigned *);
CUresult cuMemAlloc(CUdeviceptr *, size_t);
CUresult cuMemAllocHost(void **, size_t);
CUresult cuMemFree(CUdeviceptr);
CUresult cuMemFreeHost(void *);
CUresult cuMemGetInfo(size_t *, size_t *);
CUresult cuArrayCreate(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
CUresult cuArrayDestroy(CUarray);
CUresult cuPointerGetAttribute(void *, CUpointer_attribute, CUdeviceptr);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyHtoDAsync(CUdeviceptr, const void *, size_t, CUstream);
CUresult cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoHAsync(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyDtoD(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyDtoDAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyHtoA(CUarray, size_t, const void *, size_t);
CUresult cuMemcpyAtoH(void *, CUarray, size_t, size_t);
CUresult cuMemcpy2D(const CUDA_MEMCPY2D *);
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *, CUstream);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemsetD8(CUdeviceptr, unsigned char, size_t);
CUresult cuMemsetD16(CUdeviceptr, unsigned short, size_t);
CUresult cuMemsetD32(CUdeviceptr, unsigned, size_t);
CUresult cuMemsetD2D8(CUdeviceptr, size_t, unsigned char, size_t, size_t);
CUresult cuMemsetD8Async(CUdeviceptr, unsigned char, size_t, CUstream);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamDestroy(CUstream);
CUresult cuStreamQuery(CUstream);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned);
CUresult cuLaunchHostFunc(CUstream, CUhostFn, void *);
CUresult cuEventCreate(CUevent *, unsigned);
CUresult cuEventDestroy(CUevent);
CUresult cuEventQuery(CUevent);
CUresult cuEventRecord(CUevent, CUstream);
CUresult cuEventSynchronize(CUevent);
CUresult cuEventElapsedTime(float *, CUevent, CUevent);

#endif
