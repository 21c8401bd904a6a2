/*
 * Memory and semaphores of graphics APIs, such as Vulkan and Direct3D.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_EXTERNAL_H
#define FERRY_FERRY_EXTERNAL_H

#include "ferry_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Memory and semaphores of graphics APIs
 *
 * Vulkan, Direct3D 12 and Direct3D 11 export their memory and semaphores as handles of the operating system. Imported
 * memory becomes addresses and arrays, which copies, fills and batches take like any other. Semaphores order streams
 * and graphics queues. Find the device first: ferry_device_find. ferry_vulkan.hpp does all this for Vulkan's objects,
 * and docs/graphics.md has the rules. Run with Vulkan on Linux; the types for Windows and Direct3D were only compiled.
 *
 * While a stream waits for a value that this thread has yet to signal or submit, every call that waits for running work
 * on the device does not return: frees, imports, releases, the first copy by a kernel (FERRY_STAGING_AT_OPEN avoids
 * that), ferry_close. The driver may also hold such a call's lock against other threads.
 * ------------------------------------------------------------------------------------------------------------ */

/* The type of a handle of memory; the values are CUexternalMemoryHandleType's. */
#define FERRY_EXTERNAL_OPAQUE_FD 1          /* Vulkan on Linux: a file descriptor */
#define FERRY_EXTERNAL_OPAQUE_WIN32 2       /* Vulkan on Windows: an NT handle, or a name */
#define FERRY_EXTERNAL_OPAQUE_WIN32_KMT 3   /* the same: a KMT handle */
#define FERRY_EXTERNAL_D3D12_HEAP 4         /* an NT handle, or a name */
#define FERRY_EXTERNAL_D3D12_RESOURCE 5     /* the same; always dedicated, the flag need not be set */
#define FERRY_EXTERNAL_D3D11_RESOURCE 6     /* the same */
#define FERRY_EXTERNAL_D3D11_RESOURCE_KMT 7 /* a KMT handle; else the same */

/* The memory holds one buffer or image alone: VkMemoryDedicatedAllocateInfo, and resources of D3D12 and D3D11. */
#define FERRY_EXTERNAL_DEDICATED 1u

/* Memory that another API has exported. */
typedef struct ferry_external_memory_desc {
    uint32_t struct_size;
    int32_t device;      /* on which the other API allocated it */
    int32_t handle_type; /* FERRY_EXTERNAL_* */
    uint32_t flags;      /* FERRY_EXTERNAL_DEDICATED */
    int64_t handle;      /* a file descriptor or a handle; 0: there is a name */
    const void *name;    /* the zero-terminated UTF-16 name of a Windows object; NULL: none */
    uint64_t size;       /* bytes of the whole allocation: VkMemoryAllocateInfo.allocationSize, not a buffer's size */
} ferry_external_memory_desc;

/*
 * Imports memory. ferry_external_memory_get_address and ferry_external_memory_create_array make places of it.
 *
 * Blocking:      device. cuImportExternalMemory may wait for the device.
 * Ownership:     *memory, a CUexternalMemory, is the caller's until ferry_external_memory_release or
 *                ferry_external_memory_release_deferred. It keeps the other API's memory alive. On success a file
 *                descriptor is closed. A Windows handle stays the caller's, who may close it immediately. After an
 *                error the handle is as before, and the caller's, whatever the driver does with it.
 * Errors:        FERRY_ERROR_DEVICE; _INVALID_ARGUMENT for an unknown handle_type, a size of 0, or a name beside a
 *                handle; _UNSUPPORTED for a type of another operating system; _HANDLE for a descriptor or handle that
 *                is not open, or that the driver does not take for memory: `limit` is then the driver's result;
 *                _OUT_OF_BOUNDS for a size beyond the allocation (of a D3D resource this is not detected); _FLAGS;
 *                _OUT_OF_MEMORY also if the process has no descriptor left. `error` names the field. NVIDIA's driver
 *                takes the descriptor of a semaphore for memory (CUDA 13.0, Linux); nothing detects that.
 */
FERRY_API int32_t ferry_external_memory_import(ferry_instance *instance, const ferry_external_memory_desc *desc,
                                               struct CUextMemory_st **memory, ferry_error_info *error);

/*
 * Stores the address of imported memory at `offset`, and checks that `size` bytes, or none, follow it. A buffer begins
 * at the offset that it was bound at. A linear image does too, with the row pitch that the other API reports.
 *
 * Ownership:     *address ends with `memory`. No other call frees it (FERRY_ERROR_IMPORTED).
 * Errors:        FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS for a part that is not
 *                within the imported size; _UNSUPPORTED for a D3D texture, which has no addresses.
 */
FERRY_API int32_t ferry_external_memory_get_address(ferry_instance *instance, struct CUextMemory_st *memory,
                                                    uint64_t offset, uint64_t size, uint64_t *address,
                                                    ferry_error_info *error);

/*
 * Stores a mipmapped array whose texels are the texels of an image of the other API in its optimal layout. The image
 * was bound at `offset`; `desc` describes its level 0, and it has `levels` levels. Copies take the arrays of
 * ferry_mipmapped_array_get_level. Each call makes a new array. A plain 2D image has depth 0, an image with layers has
 * FERRY_ARRAY_LAYERED. State FERRY_ARRAY_SURFACE for a storage image and FERRY_ARRAY_COLOR_ATTACHMENT for one that is
 * rendered to.
 *
 * Values:        `levels`: 0: 1 level.
 * Blocking:      device. cuExternalMemoryGetMappedMipmappedArray may wait for the device.
 * Ownership:     *mipmapped, a CUmipmappedArray, ends with `memory`. ferry_mipmapped_array_destroy and
 *                ferry_mipmapped_array_destroy_deferred end it alone before that, for an allocation in which images come
 *                and go. The memory and its other arrays live on.
 * Errors:        FERRY_ERROR_HANDLE if `memory` is not imported by this instance; _OUT_OF_BOUNDS for texels beyond the
 *                imported size; _FLAGS; _ARRAY_FORMAT; the driver's own for an image that it cannot map so.
 */
FERRY_API int32_t ferry_external_memory_create_array(ferry_instance *instance, struct CUextMemory_st *memory,
                                                     uint64_t offset, const ferry_array_desc *desc, uint32_t levels,
                                                     struct CUmipmappedArray_st **mipmapped, ferry_error_info *error);

/*
 * Releases imported memory, with all addresses and arrays that were made of it, also arrays given to
 * ferry_mipmapped_array_destroy_deferred. The other API's own memory lives on until that API frees it.
 *
 * NULL:          `memory`.
 * Blocking:      device. The call waits until running work on the device has ended.
 * Errors:        FERRY_ERROR_HANDLE if it is not imported by this instance, or was released already. After an error of
 *                the driver's own some of its arrays may be gone: only release it again.
 */
FERRY_API int32_t ferry_external_memory_release(ferry_instance *instance, struct CUextMemory_st *memory,
                                                ferry_error_info *error);

/*
 * Releases imported memory in the order of `stream`, and waits for no work. The stream must come after all work that
 * uses the memory; it may be destroyed immediately. Once the earlier work on `stream` has completed,
 * ferry_deferred_trim, a later allocation by ferry on the device (ferry_device_alloc and the like, see
 * ferry_options.deferred_bytes; not an import) and ferry_close free it. Until then the other API's memory stays
 * allocated, even if that API has freed it: a program that allocates nothing by ferry must call ferry_deferred_trim.
 * Default streams belong to the memory's device.
 *
 * NULL:          `memory`.
 * Blocking:      driver_lock.
 * Ownership:     the memory and all that was made of it are gone.
 * Errors:        FERRY_ERROR_HANDLE as ferry_external_memory_release; _CAPTURE on a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the memory is still the caller's.
 */
FERRY_API int32_t ferry_external_memory_release_deferred(ferry_instance *instance, struct CUextMemory_st *memory,
                                                         struct CUstream_st *stream, ferry_error_info *error);

/* The type of a handle of a semaphore; the values are CUexternalSemaphoreHandleType's. */
#define FERRY_SEMAPHORE_OPAQUE_FD 1        /* a binary semaphore of Vulkan on Linux: a file descriptor */
#define FERRY_SEMAPHORE_OPAQUE_WIN32 2     /* the same on Windows: an NT handle, or a name */
#define FERRY_SEMAPHORE_OPAQUE_WIN32_KMT 3 /* the same: a KMT handle */
#define FERRY_SEMAPHORE_D3D12_FENCE 4
#define FERRY_SEMAPHORE_D3D11_FENCE 5
#define FERRY_SEMAPHORE_D3D11_KEYED_MUTEX 7
#define FERRY_SEMAPHORE_D3D11_KEYED_MUTEX_KMT 8
#define FERRY_SEMAPHORE_TIMELINE_FD 9     /* a timeline semaphore of Vulkan on Linux: a file descriptor */
#define FERRY_SEMAPHORE_TIMELINE_WIN32 10 /* the same on Windows: an NT handle, or a name */

/* A semaphore or fence that another API has exported. */
typedef struct ferry_external_semaphore_desc {
    uint32_t struct_size;
    int32_t device;
    int32_t handle_type; /* FERRY_SEMAPHORE_* */
    uint32_t reserved;
    int64_t handle;   /* a file descriptor or a handle; 0: there is a name */
    const void *name; /* the zero-terminated UTF-16 name of a Windows object; NULL: none */
} ferry_external_semaphore_desc;

/*
 * Imports a semaphore. The driver believes what `handle_type` says (CUDA 13.0): a timeline semaphore imported as a
 * binary one, or memory imported as a semaphore, is not detected.
 *
 * Blocking:      first_use. The first call for a device retains its primary context.
 * Ownership:     *semaphore, a CUexternalSemaphore, is the caller's until ferry_external_semaphore_release or
 *                ferry_external_semaphore_release_deferred. The handle's ownership is as in ferry_external_memory_import.
 * Errors:        as ferry_external_memory_import; FERRY_ERROR_RESERVED.
 */
FERRY_API int32_t ferry_external_semaphore_import(ferry_instance *instance, const ferry_external_semaphore_desc *desc,
                                                  struct CUextSemaphore_st **semaphore, ferry_error_info *error);

/*
 * Signals a semaphore once the earlier work on `stream` is complete: a timeline semaphore or fence gets `value`, which
 * must be above its present one; a keyed mutex is released with the key `value`; a binary semaphore has no value. In a
 * graph the same value is signalled at each launch. Default streams belong to the semaphore's device.
 *
 * Blocking:      driver_lock.
 * Errors:        FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
 */
FERRY_API int32_t ferry_external_semaphore_signal_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                        uint64_t value, struct CUstream_st *stream,
                                                        ferry_error_info *error);

/*
 * Makes later work on `stream` wait for a semaphore: until a timeline semaphore or fence has at least `value`; until a
 * keyed mutex is acquired with the key `value`, for at most `timeout_ms` milliseconds; or until a
 * binary semaphore is signalled. Only keyed mutexes have a timeout. The other API must have submitted the signal of a
 * binary semaphore before this call; of a timeline semaphore it may come later. Default streams belong to the
 * semaphore's device.
 *
 * Values:        `timeout_ms`: milliseconds; UINT32_MAX: no limit.
 * Blocking:      driver_lock.
 * Errors:        FERRY_ERROR_HANDLE if `semaphore` is not imported by this instance.
 */
FERRY_API int32_t ferry_external_semaphore_wait_async(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                      uint64_t value, uint32_t timeout_ms, struct CUstream_st *stream,
                                                      ferry_error_info *error);

/*
 * Releases an imported semaphore. Its signals and waits must have completed.
 *
 * NULL:          `semaphore`.
 * Blocking:      driver_lock.
 * Ownership:     no work may use the semaphore any more.
 * Errors:        FERRY_ERROR_HANDLE if it is not imported by this instance, or was released already.
 */
FERRY_API int32_t ferry_external_semaphore_release(ferry_instance *instance, struct CUextSemaphore_st *semaphore,
                                                   ferry_error_info *error);

/*
 * Releases an imported semaphore in the order of `stream`, and waits for no work. The stream must come after all its
 * signals and waits; it may be destroyed immediately. Once the earlier work on `stream` has completed,
 * ferry_deferred_trim and ferry_close release the semaphore, and so does an allocation that frees what deferred frees
 * keep on the device. A semaphore takes no bytes: ferry_deferred_trim releases it whatever `keep` is. Default streams
 * belong to the semaphore's device.
 *
 * NULL:          `semaphore`.
 * Blocking:      driver_lock.
 * Ownership:     the semaphore is gone.
 * Errors:        FERRY_ERROR_HANDLE as ferry_external_semaphore_release; _CAPTURE on a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the semaphore is still the caller's.
 */
FERRY_API int32_t ferry_external_semaphore_release_deferred(ferry_instance *instance,
                                                            struct CUextSemaphore_st *semaphore,
                                                            struct CUstream_st *stream, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_EXTERNAL_H */
