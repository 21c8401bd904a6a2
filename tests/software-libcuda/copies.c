/*
 * A driver-API program in plain C: it allocates, fills, copies in each direction, uses streams and events, and checks
 * bytes and results. It is linked against the software libcuda.so.1, and runs on any driver.
 */
#define _POSIX_C_SOURCE 200112L

#ifdef WITH_CUDA_HEADERS
#include <cuda.h>
#else
#include "driver_api.h"
#endif

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { size = 4096, width = 48, height = 20, pitch = 128 };

static int failures = 0;

static void expect(int line, const char *what, long long expected, long long got) {
    if (got == expected) return;
    ++failures;
    printf("line %d: %s is %lld, expected %lld\n", line, what, got, expected);
}
#define EXPECT(expected, value) expect(__LINE__, #value, (long long)(expected), (long long)(value))
#define OK(call) EXPECT(CUDA_SUCCESS, call)

static unsigned char source[size], result[size];

static void new_source(int seed) {
    for (int i = 0; i < size; ++i)
        source[i] = (unsigned char)(i * 7 + i / 256 + seed);
    memset(result, 0, size);
}
#define EXPECT_BYTES_OF_SOURCE() EXPECT(0, memcmp(source, result, size))
/* Compares memory of the device with one value. */
#define EXPECT_ALL(memory, value)                                                                                      \
    do {                                                                                                               \
        memset(source, value, size);                                                                                   \
        OK(cuMemcpyDtoH(result, memory, size));                                                                        \
        EXPECT_BYTES_OF_SOURCE();                                                                                      \
    } while (0)

static void before_init(void) {
    int number = 0;
    CUdeviceptr memory = 0;
    const char *name = NULL;
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&number));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&memory, size));
    EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuStreamSynchronize(NULL));
    OK(cuDriverGetVersion(&number));
    EXPECT(1, number >= 13000);
    OK(cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name));
    EXPECT(0, name ? strcmp(name, "CUDA_ERROR_NOT_INITIALIZED") : 1);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
}

static void refusals(void) {
    CUdeviceptr memory = 0;
    CUevent event = NULL;
    CUdevice device = 0;
    float milliseconds = 0;
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1000));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD((CUdeviceptr)64, source, size));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(result, (CUdeviceptr)64, size, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8((CUdeviceptr)64, 1, size));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)64));
    OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&milliseconds, event, event));
    OK(cuEventDestroy(event));
}

static void synchronous_copies(CUdeviceptr one, CUdeviceptr other) {
    unsigned type = 0;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, one));
    EXPECT(CU_MEMORYTYPE_DEVICE, type);
    new_source(1);
    OK(cuMemcpyHtoD(one, source, size));
    OK(cuMemcpyDtoD(other, one, size));
    OK(cuMemcpyDtoH(result, other, size));
    EXPECT_BYTES_OF_SOURCE();

    new_source(2); /* any direction by cuMemcpy */
    OK(cuMemcpy(one, (CUdeviceptr)(uintptr_t)source, size));
    OK(cuMemcpy(other, one, size));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)result, other, size));
    EXPECT_BYTES_OF_SOURCE();
}

static void asynchronous_copies(CUdeviceptr one, CUdeviceptr other) {
    CUstream streams[2] = {NULL, NULL};
    CUevent begun = NULL, copied = NULL;
    void *up = NULL, *down = NULL;
    float milliseconds = -1;
    OK(cuMemAllocHost(&up, size));
    OK(cuMemAllocHost(&down, size));
    OK(cuEventCreate(&begun, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&copied, CU_EVENT_DEFAULT));
    for (int i = 0; i < 2; ++i)
        OK(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
    for (int i = 0; i < 2; ++i) { /* across two streams, the second time across one and the default stream */
        new_source(3 + i);
        memcpy(up, source, size);
        const CUstream second = i == 0 ? streams[1] : NULL;
        OK(cuEventRecord(begun, streams[0]));
        OK(cuMemcpyHtoDAsync(one, up, size, streams[0]));
        OK(cuEventRecord(copied, streams[0]));
        OK(cuStreamWaitEvent(second, copied, 0));
        OK(cuMemcpyDtoDAsync(other, one, size, second));
        OK(cuMemcpyDtoHAsync(down, other, size, second));
        OK(cuStreamSynchronize(second));
        memcpy(result, down, size);
        EXPECT_BYTES_OF_SOURCE();
    }
    OK(cuEventSynchronize(copied));
    OK(cuEventQuery(copied));
    OK(cuEventElapsedTime(&milliseconds, begun, copied));
    EXPECT(1, milliseconds >= 0);
    new_source(5);
    memcpy(up, source, size);
    OK(cuMemcpyAsync(one, (CUdeviceptr)(uintptr_t)up, size, streams[1]));
    OK(cuMemcpyAsync((CUdeviceptr)(uintptr_t)down, one, size, streams[1]));
    OK(cuStreamSynchronize(streams[1]));
    memcpy(result, down, size);
    EXPECT_BYTES_OF_SOURCE();
    for (int i = 0; i < 2; ++i)
        OK(cuStreamDestroy(streams[i]));
    OK(cuEventDestroy(begun));
    OK(cuEventDestroy(copied));
    OK(cuMemFreeHost(up));
    OK(cuMemFreeHost(down));
}

static void rectangles_and_arrays(CUdeviceptr memory) {
    CUDA_MEMCPY2D copy;
    memset(&copy, 0, sizeof copy);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST, copy.srcHost = source, copy.srcPitch = width;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE, copy.dstDevice = memory, copy.dstPitch = pitch;
    copy.WidthInBytes = width, copy.Height = height;
    for (int asynchronous = 0; asynchronous < 2; ++asynchronous) {
        new_source(6 + asynchronous);
        OK(cuMemsetD8(memory, 0, size));
        OK(asynchronous ? cuMemcpy2DAsync(&copy, NULL) : cuMemcpy2D(&copy));
        OK(cuMemcpyDtoH(result, memory, size));
        for (int y = 0; y < height; ++y)
            EXPECT(0, memcmp(source + y * width, result + y * pitch, width));
        EXPECT(0, result[width]);
    }

    CUarray array = NULL;
    const CUDA_ARRAY_DESCRIPTOR row = {.Width = size, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    new_source(8);
    OK(cuArrayCreate(&array, &row));
    OK(cuMemcpyHtoA(array, 0, source, size));
    OK(cuMemcpyAtoH(result, array, 0, size));
    EXPECT_BYTES_OF_SOURCE();
    OK(cuArrayDestroy(array));
}

static void fills(CUdeviceptr memory) {
    OK(cuMemsetD8(memory, 1, size));
    EXPECT_ALL(memory, 1);
    OK(cuMemsetD16(memory, 0x0202, size / 2));
    EXPECT_ALL(memory, 2);
    OK(cuMemsetD32(memory, 0x03030303, size / 4));
    EXPECT_ALL(memory, 3);
    OK(cuMemsetD2D8(memory, pitch, 4, pitch, size / pitch));
    EXPECT_ALL(memory, 4);
    OK(cuMemsetD8Async(memory, 5, size, NULL));
    EXPECT_ALL(memory, 5);
}

static void copies_between_devices(CUcontext context, CUdeviceptr memory, int devices) {
    CUcontext peer = NULL;
    CUdeviceptr remote = 0;
    if (devices < 2) return;
    OK(cuDevicePrimaryCtxRetain(&peer, 1));
    OK(cuCtxPushCurrent(peer));
    OK(cuMemAlloc(&remote, size));
    new_source(9);
    OK(cuMemcpyHtoD(remote, source, size));
    OK(cuMemcpyPeer(memory, context, remote, peer, size));
    OK(cuCtxPopCurrent(NULL));
    OK(cuMemcpyDtoH(result, memory, size));
    EXPECT_BYTES_OF_SOURCE();
    OK(cuCtxPushCurrent(peer));
    OK(cuMemFree(remote));
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(1));
}

typedef CUresult (*create_context)(CUcontext *, unsigned, CUdevice);
typedef CUresult (*fill_bytes)(CUdeviceptr, unsigned char, size_t);
typedef CUresult (*copy_down)(void *, CUdeviceptr, size_t);
typedef CUresult (*of_stream)(CUstream);

static void *entry(const char *name, int version, cuuint64_t flags, int expected) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    OK(cuGetProcAddress(name, &found, version, flags, &status));
    EXPECT(expected, status);
    EXPECT(expected == CU_GET_PROC_ADDRESS_SUCCESS, found != NULL);
    return found;
}

static void entry_points(void) {
    const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM, own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    void *found = NULL;
    EXPECT(1, entry("cuMemcpyHtoD", 12000, legacy, CU_GET_PROC_ADDRESS_SUCCESS) !=
                  entry("cuMemcpyHtoD", 12000, own, CU_GET_PROC_ADDRESS_SUCCESS));
    EXPECT(1, entry("cuMemFree", 12000, legacy, CU_GET_PROC_ADDRESS_SUCCESS) ==
                  entry("cuMemFree", 12000, own, CU_GET_PROC_ADDRESS_SUCCESS));
    EXPECT(1, entry("cuMemcpyBatchAsync", 12080, legacy, CU_GET_PROC_ADDRESS_SUCCESS) !=
                  entry("cuMemcpyBatchAsync", 13000, legacy, CU_GET_PROC_ADDRESS_SUCCESS));
    EXPECT(1, entry("cuGetProcAddress", 11030, legacy, CU_GET_PROC_ADDRESS_SUCCESS) !=
                  entry("cuGetProcAddress", 12000, legacy, CU_GET_PROC_ADDRESS_SUCCESS));
    entry("cuMemcpyBatchAsync", 12070, legacy, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    entry("cuNothing", 12000, legacy, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuMemFree", NULL, 12000, legacy, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &found, 12000, legacy, NULL));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuMemFree", &found, 12000, 4, NULL));

    /* The signature of 3.2, which cuda.h no longer declares under this name. */
    CUcontext made = NULL, current = NULL;
    unsigned api = 0;
    OK(((create_context)entry("cuCtxCreate", 3020, legacy, CU_GET_PROC_ADDRESS_SUCCESS))(&made, 0, 0));
    OK(cuCtxGetApiVersion(made, &api));
    EXPECT(3020, api);
    OK(cuCtxPopCurrent(&current));
    EXPECT(1, current == made);
    OK(((CUresult(*)(CUcontext))entry("cuCtxDestroy", 4000, legacy, CU_GET_PROC_ADDRESS_SUCCESS))(made));
}

static void wait_for(void *semaphore) {
    while (sem_wait(semaphore) != 0)
        ;
}

/* The legacy stream waits for the streams of its context. A thread's own stream does not. */
static void per_thread_streams(CUdeviceptr memory) {
    const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM, own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const of_stream legacy_query = (of_stream)entry("cuStreamQuery", 7000, legacy, CU_GET_PROC_ADDRESS_SUCCESS);
    const of_stream own_query = (of_stream)entry("cuStreamQuery", 7000, own, CU_GET_PROC_ADDRESS_SUCCESS);
    const fill_bytes own_fill = (fill_bytes)entry("cuMemsetD8", 7000, own, CU_GET_PROC_ADDRESS_SUCCESS);
    const copy_down own_copy = (copy_down)entry("cuMemcpyDtoH", 7000, own, CU_GET_PROC_ADDRESS_SUCCESS);
    CUstream held = NULL;
    sem_t semaphore;
    EXPECT(0, sem_init(&semaphore, 0, 0));
    OK(cuStreamCreate(&held, CU_STREAM_DEFAULT));
    OK(cuLaunchHostFunc(held, wait_for, &semaphore));
    OK(own_fill(memory, 6, size));
    OK(own_copy(result, memory, size));
    memset(source, 6, size);
    EXPECT_BYTES_OF_SOURCE();
    OK(own_query(NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(held));
    EXPECT(CUDA_ERROR_NOT_READY, legacy_query(NULL));
    EXPECT(0, sem_post(&semaphore));
    OK(cuStreamSynchronize(held));
    OK(legacy_query(NULL));
    OK(cuStreamDestroy(held));
    EXPECT(0, sem_destroy(&semaphore));
}

int main(void) {
    CUcontext context = NULL;
    CUdeviceptr one = 0, other = 0;
    size_t available = 0, all = 0;
    int devices = 0;
    const char *wanted = getenv("FERRY_SOFTWARE_DEVICES");
    before_init();
    OK(cuInit(0));
    OK(cuDeviceGetCount(&devices));
    if (wanted) EXPECT(atoi(wanted), devices);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&one, size));
    OK(cuCtxPushCurrent(context));
    refusals();
    OK(cuMemAlloc(&one, size));
    OK(cuMemAlloc(&other, size));
    OK(cuMemGetInfo(&available, &all));
    EXPECT(1, available < all);
    synchronous_copies(one, other);
    asynchronous_copies(one, other);
    rectangles_and_arrays(one);
    fills(one);
    copies_between_devices(context, one, devices);
    entry_points();
    per_thread_streams(one);
    OK(cuMemFree(one));
    OK(cuMemFree(other));
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    printf("%d devices, %d failures\n", devices, failures);
    return failures != 0;
}
