/*
 * The memory of ferry: device memory, pinned and registered host memory, arrays, pools, and queries of the memory at an
 * address.
 *
 * ferry.h has ferry_device_alloc and ferry_device_free, and states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_MEMORY_H
#define FERRY_FERRY_MEMORY_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Memory
 *
 * ferry_device_free, ferry_host_free, ferry_host_unregister, ferry_array_destroy and ferry_mipmapped_array_destroy wait
 * for running work on the device. Meanwhile they hold a driver lock that other calls wait for. A thread must not call
 * them while a staged copy needs this thread, or one that waits for it, to move its bytes. With ferry_options.submit, a
 * worker of the program's job system that frees while it should move the bytes of a staged copy never returns, and the
 * copy never completes. Free in stream order instead: ferry_device_free_deferred, ferry_host_free_deferred,
 * ferry_host_unregister_deferred, ferry_array_destroy_deferred, ferry_mipmapped_array_destroy_deferred;
 * ferry_device_free_async for pool memory and ferry_pinned_pool_free_async for blocks of a pinned pool. The rule is in
 * docs/contract.md, "Freeing".
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Allocates `height` rows of `width` bytes on `device`, each row aligned well for elements of `element_size`
 * bytes. *row_pitch is the bytes from one row to the next. A width or height of 0 is an error.
 *
 * Values:        `element_size`: 4, 8 or 16; 0: 4.
 * Blocking:      device, as ferry_device_alloc.
 * Ownership:     *address is the caller's until ferry_device_free, ferry_device_free_async or
 *                ferry_device_free_deferred.
 * Errors:        the driver's own for other element sizes.
 */
FERRY_API int32_t ferry_device_alloc_pitched(ferry_instance *instance, int32_t device, uint64_t width, uint64_t height,
                                             uint32_t element_size, uint64_t *address, uint64_t *row_pitch,
                                             ferry_error_info *error);

/*
 * Allocates `size` bytes of managed memory: one address for the host and every device, between which the driver moves
 * the pages. The context of `device` allocates it. If ferry_device_info.concurrent_managed_access is 0, the host
 * must not touch managed memory while any device has work. Size 0 is an error.
 *
 * Blocking:      device. cuMemAllocManaged may wait for the device.
 * Ownership:     *address is the caller's until ferry_device_free or ferry_device_free_deferred.
 * Errors:        the driver's -1002 if it is out of memory.
 */
FERRY_API int32_t ferry_managed_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                                      ferry_error_info *error);

/*
 * A deferred free: frees memory of ferry_device_alloc, ferry_device_alloc_pitched or ferry_managed_alloc in the order of
 * `stream`, and waits for no work. The instance keeps the memory until the earlier work on `stream` has completed. Then
 * ferry_deferred_trim, a later allocation by ferry on the device (see ferry_options.deferred_bytes) or ferry_close
 * returns it to the driver. The stream must come after all work that uses the memory; it may be destroyed immediately.
 * Default streams belong to the memory's device.
 *
 * Values:        `address`: 0: no memory.
 * Blocking:      driver_lock.
 * Ownership:     the memory is gone, though ferry_address_get_info knows it until the driver has it back.
 * Errors:        FERRY_ERROR_ADDRESS if it is not the beginning of such an allocation or was freed already;
 *                _IMPORTED; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the memory is
 *                still the caller's.
 */
FERRY_API int32_t ferry_device_free_deferred(ferry_instance *instance, uint64_t address, struct CUstream_st *stream,
                                             ferry_error_info *error);

/* What an instance keeps after ferry_device_free_deferred, ferry_host_free_deferred, ferry_host_unregister_deferred,
 * ferry_array_destroy_deferred, ferry_mipmapped_array_destroy_deferred, ferry_prepared_destroy_deferred,
 * ferry_pinned_pool_destroy_deferred, ferry_pool_destroy_deferred, ferry_ipc_close_memory_deferred,
 * ferry_ipc_close_pool_deferred, ferry_external_memory_release_deferred and ferry_external_semaphore_release_deferred. */
typedef struct ferry_deferred_info {
    uint32_t struct_size;
    uint32_t arrays; /* mipmapped ones too */
    /* Of ferry_device_alloc, ferry_device_alloc_pitched and ferry_host_alloc; registrations, tables of prepared
     * batches, pools, and imports of memory, pools and semaphores. */
    uint32_t allocations;
    uint32_t reserved;
    uint64_t bytes; /* of both; for arrays, of their texels; imports of pools and semaphores have none */
} ferry_deferred_info;

/*
 * Fills `info` with what is kept on `device`.
 *
 * Values:        `device`: a device; FERRY_DEVICE_UNKNOWN: all devices, and the host's memory.
 */
FERRY_API int32_t ferry_deferred_get_info(ferry_instance *instance, int32_t device, ferry_deferred_info *info,
                                          ferry_error_info *error);

/*
 * Returns what is kept on `device` to the driver, oldest first, until at most `keep` bytes are left there.
 * Anything that its stream has not passed yet stays. So does a pool whose memory is still allocated.
 *
 * Values:        `device`: a device; FERRY_DEVICE_UNKNOWN: each device, and the host's memory.
 * Blocking:      device. If there is anything to return, the call waits as ferry_device_free. It also waits until another
 *                thread has returned what it took.
 * Errors:        the driver's own: whatever it refused to free stays.
 */
FERRY_API int32_t ferry_deferred_trim(ferry_instance *instance, int32_t device, uint64_t keep, ferry_error_info *error);

/* Flags of ferry_host_options and ferry_pinned_pool_options. */
#define FERRY_HOST_WRITE_COMBINED 1u  /* fast to write, very slow to read for the CPU */
#define FERRY_HOST_BY_DRIVER 2u       /* by cuMemHostAlloc: slower to allocate, and cuMemFreeHost takes it too */
#define FERRY_HOST_NOT_PORTABLE 4u    /* not pinned for other contexts; with unified addressing pinned anyway */
#define FERRY_HOST_NOT_MAPPED 8u      /* not mapped into devices; with unified addressing mapped anyway */
#define FERRY_HOST_ALLOW_SMALLER 16u  /* a smaller block instead of an error: see min_size */
#define FERRY_HOST_ALLOW_PAGEABLE 32u /* a pageable block instead of an error */
#define FERRY_HOST_SHARED 64u         /* the children of a fork share it; usually small pages before Linux 6.1 */

/* How to allocate host memory. All zero but struct_size means the defaults. */
typedef struct ferry_host_options {
    uint32_t struct_size;
    uint32_t flags;    /* FERRY_HOST_* */
    int32_t numa;      /* FERRY_NUMA_*: a preference; a full node does not make the call fail */
    int32_t device;    /* of FERRY_NUMA_DEVICE */
    int32_t numa_node; /* of FERRY_NUMA_NODE */
    uint32_t threads;  /* that touch the memory first, the caller included, 1 to 64; 0: as many as help */
    uint64_t min_size; /* of FERRY_HOST_ALLOW_SMALLER: the smallest size to accept; 0: any */
} ferry_host_options;

/* Where a block of host memory came from. */
#define FERRY_HOST_FROM_MAPPING 1 /* mapped by ferry, registered with the driver */
#define FERRY_HOST_FROM_DRIVER 2  /* cuMemHostAlloc */
#define FERRY_HOST_FROM_SYSTEM 3  /* mapped by ferry and pageable: FERRY_HOST_ALLOW_PAGEABLE */

/* What was allocated. */
typedef struct ferry_host_block {
    uint32_t struct_size;
    int32_t memory; /* FERRY_MEMORY_PINNED, or FERRY_MEMORY_PAGEABLE where that was allowed */
    void *address;
    uint64_t size;     /* bytes; less than requested only where that was allowed */
    int32_t origin;    /* FERRY_HOST_FROM_* */
    int32_t numa_node; /* of its first page; -1: the system does not report it */
} ferry_host_block;

/*
 * Allocates `size` bytes of pinned host memory, usable and mapped on every device, aligned to a page, with undefined
 * contents. Size 0 is an error. NULL `options` are the defaults; fields whose flag or mode is not set are not read.
 * Fills `block`, whose struct_size must include the field ferry_host_block.size.
 *
 * ferry maps the memory in huge pages where the system gives them, touches it from several threads and registers it
 * with the driver: several times as fast as the driver's own allocation. If that fails, and for the flags
 * _WRITE_COMBINED and _BY_DRIVER, the driver allocates it. If the driver fails too, FERRY_HOST_ALLOW_SMALLER tries
 * half as much, and half of that, down to min_size; then FERRY_HOST_ALLOW_PAGEABLE takes the whole size unpinned.
 *
 * The child of a fork does not have memory that ferry maps. With FERRY_HOST_SHARED it shares the memory, as it shares
 * the driver's. In small pages (usual before Linux 6.1) ferry's own then takes longer, but still less than the driver's.
 *
 * NULL:          `options`.
 * Blocking:      device. The call waits for running work if ferry_host_free_deferred keeps more than
 *                ferry_options.deferred_bytes, or if no memory is left and it keeps some. The call takes tens of
 *                milliseconds per GiB, with _WRITE_COMBINED or _BY_DRIVER hundreds, and starts and ends threads.
 * Ownership:     block->address is the caller's until ferry_host_free or ferry_host_free_deferred on the same instance.
 *                The memory stays pinned until the end of the context that it was made in: the current one, else
 *                ferry's for device 0. The child of a fork must not free it.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE name the option in `error` (a node that
 *                does not exist: _INVALID_ARGUMENT, numa_node); _OUT_OF_MEMORY; the driver's -1002 if it is out of
 *                memory.
 */
FERRY_API int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, const ferry_host_options *options,
                                   ferry_host_block *block, ferry_error_info *error);

/*
 * Frees memory that ferry_host_alloc of the same instance returned.
 *
 * NULL:          `address`.
 * Blocking:      device. The call waits until running work on the devices has ended.
 * Errors:        FERRY_ERROR_ADDRESS for memory of a pinned pool, for registered memory, and for memory given to
 *                ferry_host_free_deferred; the driver's own for an unknown address (freed twice, for example).
 */
FERRY_API int32_t ferry_host_free(ferry_instance *instance, void *address, ferry_error_info *error);

/*
 * A deferred free: frees memory of ferry_host_alloc in the order of `stream`, and waits for no work. The instance keeps
 * the memory until the earlier work on `stream` has completed. Then ferry_deferred_trim for FERRY_DEVICE_UNKNOWN, a
 * later ferry_host_alloc (see ferry_options.deferred_bytes) or ferry_close frees it. Host memory belongs to no device:
 * it counts only for FERRY_DEVICE_UNKNOWN. The stream must come after all work that uses the memory; it may be
 * destroyed immediately. The host must not use the memory any more.
 *
 * NULL:          `address`.
 * Blocking:      driver_lock.
 * Ownership:     the memory is gone, though ferry_address_get_info knows it until it is freed.
 * Errors:        FERRY_ERROR_ADDRESS if it is not the beginning of such a block or was freed already, and as for
 *                ferry_host_free; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the
 *                memory is still the caller's.
 */
FERRY_API int32_t ferry_host_free_deferred(ferry_instance *instance, void *address, struct CUstream_st *stream,
                                           ferry_error_info *error);

#define FERRY_REGISTER_READ_ONLY 1u /* the devices only read it; for anonymous memory that the process may only read */

/*
 * Pins `size` bytes of the caller's own memory in place, for every device. Size 0 is an error. Memory larger than
 * ferry_options.register_chunk is registered in pieces of that size: all of them or, on failure, none. Copies and fills
 * on the same instance may cross from one piece or registration into the next, and copies may leave them for pageable
 * memory. The driver refuses such a call; ferry then makes one call for each part (see ferry_copy). The program's own
 * calls of the driver must stay within one piece.
 *
 * Values:        `flags`: FERRY_REGISTER_READ_ONLY, which the driver refuses for memory of files, or 0.
 * Blocking:      device. The call waits for running work if deferred frees keep more host memory than
 *                ferry_options.deferred_bytes, or if they keep a part of this memory registered. Pages are faulted in
 *                and pinned.
 * Ownership:     `address` must live until ferry_host_unregister or ferry_host_unregister_deferred. The memory stays
 *                the caller's. The registration ends with its context, as for ferry_host_alloc.
 * Errors:        FERRY_ERROR_FLAGS, _OVERFLOW, _OUT_OF_MEMORY; the driver's -1712 if any part is already registered.
 *                Nothing is registered then.
 */
FERRY_API int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags,
                                      ferry_error_info *error);

/*
 * Undoes ferry_host_register; `address` is the one given there.
 *
 * Blocking:      device. The call waits until running work on the devices has ended.
 * Ownership:     the memory is the caller's as before.
 * Errors:        FERRY_ERROR_ADDRESS for what ferry itself registered (ferry_host_free takes that) and for memory given
 *                to ferry_host_unregister_deferred; the driver's -1713
 *                if it is not registered. If the driver refuses one piece, ferry unregisters the others and returns the
 *                first error: there is nothing left to try again.
 */
FERRY_API int32_t ferry_host_unregister(ferry_instance *instance, void *address, ferry_error_info *error);

/*
 * Undoes ferry_host_register in the order of `stream`, and waits for no work; `address` is the one given there. Once
 * the earlier work on `stream` has completed, ferry_deferred_trim for FERRY_DEVICE_UNKNOWN, a later ferry_host_alloc or
 * ferry_host_register (see ferry_options.deferred_bytes) or ferry_close unregisters the memory. Until then it must stay
 * mapped, and no later call may copy it; the host may use it. ferry_address_get_info reports FERRY_MEMORY_PAGEABLE once
 * it is unregistered. The stream must come after all work that uses the memory; it may be destroyed immediately.
 *
 * Blocking:      driver_lock.
 * Ownership:     the memory is the caller's as before, but must not be unmapped before it is unregistered.
 * Errors:        FERRY_ERROR_ADDRESS if no registration of this instance begins there, or if it is being unregistered
 *                already; the driver's -1713 if the registration ended with its context; _CAPTURE on a stream that is
 *                being captured; _OUT_OF_MEMORY. After an error the memory is registered as before.
 */
FERRY_API int32_t ferry_host_unregister_deferred(ferry_instance *instance, void *address, struct CUstream_st *stream,
                                                 ferry_error_info *error);

/* The memory at an address. */
typedef struct ferry_address_info {
    uint32_t struct_size;
    int32_t memory; /* FERRY_MEMORY_* */
    int32_t device; /* the device of device memory; -1: other memory */
    uint32_t reserved;
    uint64_t range_start;    /* the allocation or registration around the address, all its pieces; 0: not known */
    uint64_t range_size;     /* bytes */
    uint64_t device_address; /* the address that a kernel uses for the same byte; 0: pageable memory */
    struct CUmemPoolHandle_st *pool; /* of the memory or its import; belongs to its owner; NULL: none */
} ferry_address_info;

/*
 * Fills `info` for the memory at `address`. An address that the driver does not know is pageable. Memory of a host pool
 * is pinned for devices that have access to the pool, and pageable for the others. The call reports the kind for the
 * current context's device, else for device 0. In a copy between such memory and another device's memory,
 * FERRY_SOURCE_ORDER_CALL and FERRY_COPY_DESTINATION_WRITTEN apply unless both that device and the copy's own have
 * access.
 */
FERRY_API int32_t ferry_address_get_info(ferry_instance *instance, uint64_t address, ferry_address_info *info,
                                         ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Arrays
 * ------------------------------------------------------------------------------------------------------------ */

/* The elements of an array; the values are CUarray_format's. These take 1, 2 or 4 channels. */
#define FERRY_FORMAT_UINT8 0x01
#define FERRY_FORMAT_UINT16 0x02
#define FERRY_FORMAT_UINT32 0x03
#define FERRY_FORMAT_SINT8 0x08
#define FERRY_FORMAT_SINT16 0x09
#define FERRY_FORMAT_SINT32 0x0a
#define FERRY_FORMAT_HALF 0x10
#define FERRY_FORMAT_FLOAT 0x20
/* Normalised integers; the number of channels is in the name. */
#define FERRY_FORMAT_UNORM_INT8X1 0xc0
#define FERRY_FORMAT_UNORM_INT8X2 0xc1
#define FERRY_FORMAT_UNORM_INT8X4 0xc2
#define FERRY_FORMAT_UNORM_INT16X1 0xc3
#define FERRY_FORMAT_UNORM_INT16X2 0xc4
#define FERRY_FORMAT_UNORM_INT16X4 0xc5
#define FERRY_FORMAT_SNORM_INT8X1 0xc6
#define FERRY_FORMAT_SNORM_INT8X2 0xc7
#define FERRY_FORMAT_SNORM_INT8X4 0xc8
#define FERRY_FORMAT_SNORM_INT16X1 0xc9
#define FERRY_FORMAT_SNORM_INT16X2 0xca
#define FERRY_FORMAT_SNORM_INT16X4 0xcb
#define FERRY_FORMAT_UNORM_INT_101010_2 0x50 /* 4 channels in 32 bits */
/* Block compression: an element is a block of 4 x 4 texels. Channels: 4; BC4 1, BC5 2, BC6H 3. */
#define FERRY_FORMAT_BC1_UNORM 0x91
#define FERRY_FORMAT_BC1_UNORM_SRGB 0x92
#define FERRY_FORMAT_BC2_UNORM 0x93
#define FERRY_FORMAT_BC2_UNORM_SRGB 0x94
#define FERRY_FORMAT_BC3_UNORM 0x95
#define FERRY_FORMAT_BC3_UNORM_SRGB 0x96
#define FERRY_FORMAT_BC4_UNORM 0x97
#define FERRY_FORMAT_BC4_SNORM 0x98
#define FERRY_FORMAT_BC5_UNORM 0x99
#define FERRY_FORMAT_BC5_SNORM 0x9a
#define FERRY_FORMAT_BC6H_UF16 0x9b
#define FERRY_FORMAT_BC6H_SF16 0x9c
#define FERRY_FORMAT_BC7_UNORM 0x9d
#define FERRY_FORMAT_BC7_UNORM_SRGB 0x9e
/* Video, with FERRY_ARRAY_VIDEO: packed formats are copied whole, planar formats (3 channels) plane by plane, see
 * ferry_array_get_plane. */
#define FERRY_FORMAT_NV12 0xb0 /* planar 4:2:0, 8 bits */
#define FERRY_FORMAT_P010 0x9f /* planar 4:2:0, 10 bits */
#define FERRY_FORMAT_P016 0xa1 /* planar 4:2:0, 16 bits */
#define FERRY_FORMAT_NV16 0xa2 /* planar 4:2:2, 8 bits */
#define FERRY_FORMAT_P210 0xa3 /* planar 4:2:2, 10 bits */
#define FERRY_FORMAT_P216 0xa4 /* planar 4:2:2, 16 bits */
#define FERRY_FORMAT_YUY2 0xa5 /* packed 4:2:2, 8 bits; 4 channels */
#define FERRY_FORMAT_Y210 0xa6 /* packed 4:2:2, 10 bits; 2 channels */
#define FERRY_FORMAT_Y216 0xa7 /* packed 4:2:2, 16 bits; 2 channels */
#define FERRY_FORMAT_AYUV 0xa8 /* packed 4:4:4, 8 bits; 4 channels */
#define FERRY_FORMAT_Y410 0xa9 /* packed 4:4:4, 10 bits; 1 channel */
#define FERRY_FORMAT_Y416 0xb1 /* packed 4:4:4, 12 bits; 4 channels */
#define FERRY_FORMAT_Y444_PLANAR8 0xb2
#define FERRY_FORMAT_Y444_PLANAR10 0xb3
#define FERRY_FORMAT_YUV444_8BIT_SEMIPLANAR 0xb4
#define FERRY_FORMAT_YUV444_16BIT_SEMIPLANAR 0xb5

/* ferry_array_desc.flags */
#define FERRY_ARRAY_LAYERED 0x01u        /* depth counts layers (CUDA_ARRAY3D_LAYERED) */
#define FERRY_ARRAY_SURFACE 0x02u        /* surfaces may be made of it (CUDA_ARRAY3D_SURFACE_LDST) */
#define FERRY_ARRAY_CUBEMAP 0x04u        /* square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP) */
#define FERRY_ARRAY_TEXTURE_GATHER 0x08u /* 2D only (CUDA_ARRAY3D_TEXTURE_GATHER) */
#define FERRY_ARRAY_COLOR_ATTACHMENT 0x20u /* only of imported images (CUDA_ARRAY3D_COLOR_ATTACHMENT) */
#define FERRY_ARRAY_VIDEO 0x100u           /* for the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE) */

/* An array's shape. In a copy a layer is a slice, and so is a face of a cube: its number is z. */
typedef struct ferry_array_desc {
    uint32_t struct_size;
    int32_t format;    /* FERRY_FORMAT_* */
    uint32_t channels; /* 1, 2 or 4, or the number that the format has */
    uint32_t flags;    /* FERRY_ARRAY_* */
    uint64_t width;    /* texels */
    uint64_t height;   /* texels; 0: a 1D array */
    uint64_t depth;    /* texels, layers or faces; 0: a 1D or 2D array */
} ferry_array_desc;

/*
 * Creates a CUDA array on `device`: 1D, 2D, 3D, layered or cubemap. Copies take any other CUarray too.
 *
 * ferry identifies the array by its handle. Destroy it with ferry_array_destroy (a mipmapped one with
 * ferry_mipmapped_array_destroy) on the instance that made it. The driver's own call or another instance may destroy it
 * only after this instance is closed: otherwise a later array with the same handle would be read wrongly, or be refused
 * on its device.
 *
 * With FERRY_ARRAY_SURFACE and a format of plain texels (neither compressed nor video), ferry's kernels can read the
 * array in the context it was made in: whole arrays reach the device's memory up to 1.8 times as fast (H200). From the
 * first copy by a kernel on, ferry keeps a surface of such an array.
 *
 * An array given to ferry_array_destroy_deferred is reused for an equal description on the same device, once the
 * earlier work on the stream of that call has completed. Its contents are undefined, as in a new array.
 *
 * Blocking:      device, as ferry_device_alloc. If an array is reused, the class is none.
 * Ownership:     *array, a CUarray, is the caller's until ferry_array_destroy or ferry_array_destroy_deferred.
 * Errors:        FERRY_ERROR_FLAGS; _ARRAY_FORMAT for a format that the driver does not have, or a number of channels
 *                that the format does not have; the driver's own for unsupported sizes.
 */
FERRY_API int32_t ferry_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                     struct CUarray_st **array, ferry_error_info *error);

/*
 * Destroys an array.
 *
 * NULL:          `array`.
 * Blocking:      device. The call waits until running work on the device has ended.
 * Ownership:     the array is gone. Graphs that copy from it may not run any more.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT also for an array given to ferry_array_destroy_deferred.
 */
FERRY_API int32_t ferry_array_destroy(ferry_instance *instance, struct CUarray_st *array, ferry_error_info *error);

/*
 * Destroys an array of ferry_array_create in the order of `stream`, and waits for no work. CUDA has no such call, so
 * the instance keeps the array. Once the earlier work on `stream` has completed, ferry_array_create reuses it for an
 * equal description; ferry_deferred_trim, a later allocation by ferry on the device (see ferry_options.deferred_bytes)
 * and ferry_close destroy it. The stream must come after all work that uses the array; it may be destroyed immediately.
 * Default streams belong to the array's device.
 *
 * NULL:          `array`.
 * Blocking:      driver_lock.
 * Ownership:     the array and its planes are gone. First destroy its texture and surface objects: they would name the
 *                array of its next owner. Graphs that copy from it may not run any more.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT also for an array that another instance or the driver made, for a level,
 *                and for an array already destroyed in this way; _CAPTURE on a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the array is still the caller's.
 */
FERRY_API int32_t ferry_array_destroy_deferred(ferry_instance *instance, struct CUarray_st *array,
                                               struct CUstream_st *stream, ferry_error_info *error);

/*
 * Creates a mipmapped array: `levels` arrays, each of half the width, height and depth of the one before, rounded down
 * and at least 1; layers and faces are not halved. `levels` above the maximum creates the maximum number.
 * FERRY_ARRAY_SURFACE means for each level what it means for ferry_array_create. A mipmapped array given to
 * ferry_mipmapped_array_destroy_deferred is reused if the description and the number of levels are equal.
 *
 * Values:        `levels`: 0: the maximum number.
 * Blocking:      device, as ferry_array_create.
 * Ownership:     *mipmapped, a CUmipmappedArray, is the caller's until ferry_mipmapped_array_destroy or
 *                ferry_mipmapped_array_destroy_deferred.
 * Errors:        as ferry_array_create.
 */
FERRY_API int32_t ferry_mipmapped_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                               uint32_t levels, struct CUmipmappedArray_st **mipmapped,
                                               ferry_error_info *error);

/*
 * Stores level number `level` of a mipmapped array in *array. Copies take it like any other array. Level 0 is the
 * largest.
 *
 * Blocking:      driver_lock.
 * Ownership:     *array belongs to the mipmapped array and ends with it; it must not be destroyed by itself.
 * Errors:        the driver's -1001 if there is no such level.
 */
FERRY_API int32_t ferry_mipmapped_array_get_level(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped,
                                                  uint32_t level, struct CUarray_st **array, ferry_error_info *error);

/*
 * Destroys a mipmapped array with all its levels. Takes arrays of ferry_external_memory_create_array too.
 *
 * NULL:          `mipmapped`.
 * Blocking:      device. The call waits until running work on the device has ended.
 * Ownership:     the arrays are gone. Graphs that copy from them may not run any more.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT also for an array given to ferry_mipmapped_array_destroy_deferred.
 */
FERRY_API int32_t ferry_mipmapped_array_destroy(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped,
                                                ferry_error_info *error);

/*
 * ferry_array_destroy_deferred for a mipmapped array with all its levels. An array of
 * ferry_external_memory_create_array is never reused: ferry_deferred_trim, a later allocation, ferry_close and the
 * release of its memory destroy it.
 *
 * NULL:          `mipmapped`.
 * Blocking:      driver_lock.
 * Ownership:     as ferry_array_destroy_deferred.
 * Errors:        as ferry_array_destroy_deferred.
 */
FERRY_API int32_t ferry_mipmapped_array_destroy_deferred(ferry_instance *instance,
                                                         struct CUmipmappedArray_st *mipmapped,
                                                         struct CUstream_st *stream, ferry_error_info *error);

/*
 * Stores plane number `plane` of an array in a planar video format in *plane_array. Copies take it like any other
 * array. Luma is plane 0; the chroma planes follow, smaller where the format subsamples them.
 *
 * Blocking:      driver_lock.
 * Ownership:     *plane_array belongs to `array` and ends with it; it must not be destroyed by itself.
 * Errors:        the driver's -1001 if there is no such plane or the format is not planar.
 */
FERRY_API int32_t ferry_array_get_plane(ferry_instance *instance, struct CUarray_st *array, uint32_t plane,
                                        struct CUarray_st **plane_array, ferry_error_info *error);

/*
 * Fills `desc` from any CUarray. *element_size, unless NULL, is the size of one element in bytes: for block-compressed
 * formats, whose copies count blocks, of a block of 4 x 4 texels; 0 for planar formats, which have no such size.
 *
 * NULL:          `element_size`.
 * Blocking:      driver_lock.
 * Errors:        the driver's own for a handle that is no array, if the driver detects it.
 */
FERRY_API int32_t ferry_array_get_info(ferry_instance *instance, struct CUarray_st *array, ferry_array_desc *desc,
                                       uint32_t *element_size, ferry_error_info *error);

/* Where one level of an array is in a buffer, and the extent of the copy of this level. */
typedef struct ferry_level_footprint {
    uint64_t offset;       /* bytes from the beginning of the buffer to the level */
    uint64_t size;         /* bytes from `offset` to the end of the last row, which has no padding */
    uint64_t row_pitch;    /* bytes from one row to the next in the buffer */
    uint64_t slice_height; /* rows from one slice to the next in the buffer */
    uint64_t width;        /* bytes of a row */
    uint64_t height;       /* rows; of a block-compressed format, rows of blocks */
    uint64_t depth;        /* slices: also layers and faces */
    uint64_t reserved;     /* 0 */
} ferry_level_footprint;

/*
 * Lays out the levels of an array in one buffer, such as a staging buffer: level after level, and in each level all
 * slices, layers or faces. One copy then moves one level:
 *
 *     ferry_place_host_pitched(&memory, buffer + level.offset, level.row_pitch, level.slice_height);
 *     ferry_place_array(&texels, device, array); // of ferry_mipmapped_array_get_level
 *     ferry_copy_desc_set(&copy, &texels, &memory, level.width, level.height, level.depth);
 *
 * `desc` is as for ferry_array_create, also with FERRY_ARRAY_COLOR_ATTACHMENT. The call lays out `levels` levels, or the
 * maximum number of ferry_mipmapped_array_create if that is less, and stores their number in *count and the size of the
 * buffer in *size. `levels` 0 with NULL `footprints` is the maximum number, to find out *count and *size.
 *
 * Row pitches are multiples of `row_alignment` bytes, and offsets of `level_alignment` bytes. 0 counts as 1: ferry and
 * CUDA need no alignment. Direct3D 12 needs 256 and 512; Vulkan needs multiples of 4 and of the element's size, which
 * for block-compressed formats is the size of a block.
 *
 * A planar video format has no footprint, because its planes are copied one by one. Pass the description of each plane
 * (ferry_array_get_plane, ferry_array_get_info).
 *
 * NULL:          `footprints`, `count`, `size`.
 * Values:        `footprints`: `levels` elements; those from *count on are not written.
 * Errors:        FERRY_ERROR_FLAGS, _ARRAY_FORMAT, _INVALID_ARGUMENT name the field of `desc` that no array can have;
 *                _INVALID_ARGUMENT with FERRY_FIELD_LEVEL for 0 levels with `footprints`; _UNSUPPORTED with
 *                FERRY_FIELD_FORMAT for planar formats; _OVERFLOW if the buffer's size does not fit 64 bits. The sizes
 *                that a device supports are not checked.
 */
FERRY_API int32_t ferry_array_desc_get_footprint(const ferry_array_desc *desc, uint32_t levels, uint32_t row_alignment,
                                                 uint32_t level_alignment, ferry_level_footprint *footprints,
                                                 uint32_t *count, uint64_t *size, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Pinned pools
 *
 * Pinned host memory in blocks: an allocation takes well below a microsecond. Blocks are freed in stream order; an
 * event prevents the reuse of a block until the earlier work on the stream has completed. If a context is lost, or
 * destroyed before the pool, blocks that waited for its streams become free.
 * ------------------------------------------------------------------------------------------------------------ */

/* One pool. Opaque, and ferry's own: the driver has no such pool. */
typedef struct ferry_pinned_pool ferry_pinned_pool;

/* How to create a pinned pool. All zero but struct_size means: on any node, without a limit. With FERRY_NUMA_NODE or
 * _DEVICE a pool's memory is on one node; create one pool for each node that matters. */
typedef struct ferry_pinned_pool_options {
    uint32_t struct_size;
    uint32_t flags;    /* FERRY_HOST_WRITE_COMBINED, _BY_DRIVER, _NOT_PORTABLE, _NOT_MAPPED */
    int32_t numa;      /* FERRY_NUMA_* */
    int32_t device;    /* of FERRY_NUMA_DEVICE */
    int32_t numa_node; /* of FERRY_NUMA_NODE */
    uint32_t reserved;
    uint64_t max_size; /* bytes that the pool may hold; 0: no limit */
} ferry_pinned_pool_options;

/*
 * Creates a pool. The pool takes memory from the system as needed and keeps it until ferry_pinned_pool_trim or
 * _destroy. For each size of blocks it takes 64 KiB or more at a time, in larger pieces as it holds more of them, up to
 * 2 MiB; less near the limit. All of it is pinned in the context that ferry uses for `device` of FERRY_NUMA_DEVICE,
 * else for device 0, whatever context is current. That context must not end before the pool.
 *
 * NULL:          `options`.
 * Ownership:     *pool is the caller's until ferry_pinned_pool_destroy or ferry_pinned_pool_destroy_deferred, which
 *                must come before ferry_close.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _FLAGS, _DEVICE, _RESERVED name the option in `error`;
 *                _OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_pinned_pool_create(ferry_instance *instance, const ferry_pinned_pool_options *options,
                                           ferry_pinned_pool **pool, ferry_error_info *error);

/*
 * Destroys a pool and releases its memory.
 *
 * NULL:          `pool`.
 * Thread-safety: no other call on this pool may run meanwhile, nor later unless this one returned FERRY_ERROR_IN_USE.
 * Blocking:      device. The call waits until the work before the frees has completed on their streams, and as
 *                ferry_host_free.
 * Errors:        FERRY_ERROR_IN_USE while blocks are allocated: the pool is then unchanged. A pool still in use at
 *                ferry_close is leaked. After an error of the driver's own the pool is gone all the same, and memory
 *                that the driver did not take back is lost.
 */
FERRY_API int32_t ferry_pinned_pool_destroy(ferry_pinned_pool *pool, ferry_error_info *error);

/*
 * Destroys a pool in the order of `stream`, and waits for no work. The instance keeps the pool's memory until the
 * earlier work on `stream` has completed, as ferry_host_free_deferred keeps memory. The stream must come after the
 * pool's frees on all streams; it may be destroyed immediately. Default streams as for ferry_stream_synchronize.
 *
 * NULL:          `pool`.
 * Thread-safety: as ferry_pinned_pool_destroy.
 * Blocking:      driver_lock.
 * Ownership:     the pool is gone. Its memory is pinned until it is released.
 * Errors:        FERRY_ERROR_IN_USE while blocks are allocated; _CAPTURE on a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the pool is still the caller's.
 */
FERRY_API int32_t ferry_pinned_pool_destroy_deferred(ferry_pinned_pool *pool, struct CUstream_st *stream,
                                                     ferry_error_info *error);

/*
 * Allocates `size` bytes that the host may use immediately: no stream uses them any more. Aligned to 256 bytes, and to
 * 4096 if `size` is a multiple of 4096 or more than 30 KiB. Sizes are rounded up to classes, eight to each power of two
 * from 2 KiB on: at most an eighth of a block is wasted, below 2 KiB at most 255 bytes. Size 0 is an error.
 *
 * Blocking:      device, if the limit of the pool makes it release free blocks of other sizes, as ferry_host_free. If
 *                the pool only has to grow, the call takes as long as ferry_host_alloc. Otherwise the class is none.
 * Ownership:     *address is the caller's until ferry_pinned_pool_free or ferry_pinned_pool_free_async.
 * Errors:        FERRY_ERROR_LIMIT if neither free blocks nor the pool's limit suffice: a later call may succeed, once
 *                the work before frees has completed on their streams, unless `size` itself exceeds the limit. The
 *                field is FERRY_FIELD_MAX_SIZE, and the value is the size that the pool would have. As
 *                ferry_host_alloc.
 */
FERRY_API int32_t ferry_pinned_pool_alloc(ferry_pinned_pool *pool, uint64_t size, void **address,
                                          ferry_error_info *error);

/*
 * Allocates `size` bytes for later work on `stream`. The host must wait until the stream has reached this point before
 * using them. A block that was freed on the same stream is reused immediately. If the pool is at its limit or cannot
 * grow, `stream` waits for a block that was freed on another stream.
 *
 * Blocking:      device, as ferry_pinned_pool_alloc. The call does not wait for streams. If it makes the stream wait
 *                for a block that is still in use, and does not release or grow, the class is driver_lock.
 * Ownership:     as ferry_pinned_pool_alloc. If the block is freed on another stream, that stream must come after
 *                `stream`.
 * Errors:        as ferry_pinned_pool_alloc, and FERRY_ERROR_CAPTURE for a stream that is being captured.
 */
FERRY_API int32_t ferry_pinned_pool_alloc_async(ferry_pinned_pool *pool, uint64_t size, struct CUstream_st *stream,
                                                void **address, ferry_error_info *error);

/*
 * Frees a block that none of the caller's work uses any more. If ferry_pinned_pool_alloc_async made its stream wait for
 * the block, the pool does not reuse the block before that earlier work has ended. May also be called
 * from a host function of a stream.
 *
 * NULL:          `address`.
 * Ownership:     no work may use the block any more.
 * Errors:        FERRY_ERROR_ADDRESS if it is no block of this pool, or was freed already.
 */
FERRY_API int32_t ferry_pinned_pool_free(ferry_pinned_pool *pool, void *address, ferry_error_info *error);

/*
 * Frees a block in stream order: once the work enqueued on `stream` so far has completed. NULL for `address` is
 * allowed. Default streams as for ferry_stream_synchronize.
 *
 * NULL:          `address`.
 * Blocking:      driver_lock.
 * Ownership:     the block is gone; the stream may be destroyed immediately.
 * Errors:        FERRY_ERROR_ADDRESS as for ferry_pinned_pool_free; _CAPTURE for a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the block is still the caller's.
 */
FERRY_API int32_t ferry_pinned_pool_free_async(ferry_pinned_pool *pool, void *address, struct CUstream_st *stream,
                                               ferry_error_info *error);

/*
 * Releases memory to the system until the pool holds at most `keep` bytes. Memory with a block that is allocated or
 * waits for its stream stays.
 *
 * Blocking:      device, as ferry_host_free, if there is memory to release.
 */
FERRY_API int32_t ferry_pinned_pool_trim(ferry_pinned_pool *pool, uint64_t keep, ferry_error_info *error);

/* Bytes of a pool: now, and the high-water marks since the pool was created or the marks were reset. In a
 * driver's pool, memory that ferry_device_free has freed still counts as used (CUDA 13.0). */
typedef struct ferry_pool_stats {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t reserved_current; /* held by the pool */
    uint64_t reserved_high;
    uint64_t used_current; /* allocated, as the pool rounds; in a pinned pool also blocks that wait for streams */
    uint64_t used_high;
} ferry_pool_stats;

/*
 * Fills `stats`.
 */
FERRY_API int32_t ferry_pinned_pool_get_stats(ferry_pinned_pool *pool, ferry_pool_stats *stats,
                                              ferry_error_info *error);

/*
 * Resets both high-water marks to the current values.
 */
FERRY_API int32_t ferry_pinned_pool_reset_stats(ferry_pinned_pool *pool, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Stream-ordered memory
 *
 * Memory from the driver's pools, allocated and freed as work of a stream. ferry_device_info.memory_pools says whether
 * a device has pools, host_memory_pools and host_numa_memory_pools whether pools in host memory work; without them
 * these calls return FERRY_ERROR_UNSUPPORTED. Pools are the driver's own handles: every call takes a CUmemoryPool or
 * cudaMemPool_t of the program's too. Copies and fills take memory of pools like any other.
 * ------------------------------------------------------------------------------------------------------------ */

/* Handle types by which the device's memory pools can be shared (bits). */
#define FERRY_HANDLE_POSIX_FD 1u
#define FERRY_HANDLE_WIN32 2u
#define FERRY_HANDLE_WIN32_KMT 4u
#define FERRY_HANDLE_FABRIC 8u

/*
 * Allocates `size` bytes from the current pool of `device`, in the order of `stream`: work enqueued there from now on
 * may use the memory, and so may work elsewhere after an event. With a default stream the device must be named
 * (else _DEVICE). The location of the memory never depends on the current context. Size 0 gives an address of no bytes,
 * which may be 0.
 *
 * Under capture the allocation becomes part of the graph. Until the graph is launched the driver does not know the
 * address, so copies and fills of it must state kind DEVICE and the device.
 *
 * Values:        `device`: a device; FERRY_DEVICE_UNKNOWN: the stream's own device.
 * Blocking:      driver_lock. While a pool grows, the call takes tens of microseconds to milliseconds.
 * Ownership:     *address is the caller's until ferry_device_free_async or ferry_device_free.
 * Errors:        the driver's -1002 if it is out of memory.
 */
FERRY_API int32_t ferry_device_alloc_async(ferry_instance *instance, int32_t device, uint64_t size,
                                           struct CUstream_st *stream, uint64_t *address, ferry_error_info *error);

/*
 * Frees memory of ferry_device_alloc_async, ferry_pool_alloc_async or ferry_device_alloc in the order of `stream`. The
 * stream must come after all work that uses the memory. Default streams belong to the memory's device.
 * ferry_device_free takes stream-ordered memory too, and waits.
 *
 * Values:        `address`: 0: no memory.
 * Blocking:      driver_lock. For memory of ferry_device_alloc, NVIDIA does not document that the call does not wait
 *                (it did not wait on H200, driver 580). ferry_device_free_deferred never waits for running work.
 * Ownership:     the memory is gone, also for ferry_address_get_info and full checks, from this call on.
 * Errors:        FERRY_ERROR_IMPORTED for memory of another process (ferry_ipc_close_memory); _ADDRESS for an address
 *                that is not the beginning of an allocation or was freed already. Memory of ferry_device_alloc that is
 *                freed twice in stream order is not detected: the process may crash, as with the driver.
 */
FERRY_API int32_t ferry_device_free_async(ferry_instance *instance, uint64_t address, struct CUstream_st *stream,
                                          ferry_error_info *error);

/* Where a pool's memory is. */
#define FERRY_LOCATION_UNKNOWN (-1) /* only reported: ferry_pool_get_info does not know the location */
#define FERRY_LOCATION_DEVICE 0     /* on a device */
#define FERRY_LOCATION_HOST 1       /* in host memory */
#define FERRY_LOCATION_HOST_NUMA 2  /* in host memory on a NUMA node */

/* How to create a pool. */
typedef struct ferry_pool_desc {
    uint32_t struct_size;
    int32_t location; /* FERRY_LOCATION_* */
    int32_t index;    /* ordinal of the device, or number of the NUMA node; 0: the only one of FERRY_LOCATION_HOST */
    uint32_t handle_types; /* FERRY_HANDLE_* in ferry_device_info.pool_handle_types: how to share it; 0: not shared */
    uint64_t max_size;     /* bytes; 0: no limit of its own */
} ferry_pool_desc;

/*
 * Creates a pool. Devices have no access to a pool in host memory before ferry_pool_set_access; without access copies
 * work, but as slowly as with pageable memory. A pool of FERRY_LOCATION_HOST cannot be shared.
 *
 * Blocking:      device. cuMemPoolCreate may wait for the device.
 * Ownership:     *pool, a CUmemoryPool, is the caller's until ferry_pool_destroy or ferry_pool_destroy_deferred.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE, _UNSUPPORTED name the field in `error` (a node
 *                that does not exist: _INVALID_ARGUMENT, index).
 */
FERRY_API int32_t ferry_pool_create(ferry_instance *instance, const ferry_pool_desc *desc,
                                    struct CUmemPoolHandle_st **pool, ferry_error_info *error);

/*
 * Destroys a pool. All of its memory must have been freed: the driver would accept a pool in use, and end the process
 * some time later (CUDA 13.0). If the pool was current for its location, the default pool is current again.
 *
 * NULL:          `pool`.
 * Thread-safety: safe; no other call may be using the pool.
 * Blocking:      device. The call waits until the frees of its memory have completed on their streams. If some have
 *                not, the call waits for all work of the current context, of the contexts that ferry uses and of the
 *                primary contexts, so it may wait and then return FERRY_ERROR_IN_USE. On streams of any other context,
 *                the frees must have completed before the call.
 * Errors:        FERRY_ERROR_IN_USE while memory from it is allocated: the pool is then unchanged; _INVALID_ARGUMENT
 *                for the default pool; _IMPORTED for a pool of another process (ferry_ipc_close_pool).
 */
FERRY_API int32_t ferry_pool_destroy(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                     ferry_error_info *error);

/*
 * Destroys a pool in the order of `stream`, and waits for no work. The instance keeps the pool until the earlier work on
 * `stream` has completed and all memory from the pool has been freed. Then ferry_deferred_trim, a later allocation by
 * ferry on the device (see ferry_options.deferred_bytes) or ferry_close destroys the pool. The stream must come after the
 * frees of the pool's memory on all streams; it may be destroyed immediately. Default streams belong to the pool's device.
 * If the pool was current for its location, the default pool is current again.
 *
 * NULL:          `pool`.
 * Thread-safety: safe; no other call may be using the pool.
 * Blocking:      driver_lock.
 * Ownership:     the pool is gone. Memory that is still allocated from it stays valid until it is freed; if this is not
 *                before ferry_close, the pool is leaked.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT for the default pool and for a pool that was ended already; _IMPORTED for
 *                a pool of another process (ferry_ipc_close_pool_deferred); _CAPTURE on a stream that is being captured;
 *                _OUT_OF_MEMORY. After an error the pool is still the caller's.
 */
FERRY_API int32_t ferry_pool_destroy_deferred(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                              struct CUstream_st *stream, ferry_error_info *error);

/*
 * Stores the default pool of a location in *pool. It can be neither destroyed nor shared. `index` is as in
 * ferry_pool_desc.
 *
 * Values:        `location`: FERRY_LOCATION_*.
 * Blocking:      driver_lock.
 * Ownership:     *pool belongs to the driver.
 * Errors:        FERRY_ERROR_UNSUPPORTED for locations other than devices before CUDA 13.0.
 */
FERRY_API int32_t ferry_pool_get_default(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st **pool, ferry_error_info *error);

/*
 * Stores the current pool of a location in *pool: ferry_device_alloc_async allocates from it. Until another pool is
 * set, it is the default pool. It is the same for the whole process.
 *
 * Values:        `location`: FERRY_LOCATION_*.
 * Blocking:      driver_lock.
 * Ownership:     *pool belongs to its owner as before.
 * Errors:        as ferry_pool_get_default.
 */
FERRY_API int32_t ferry_pool_get_current(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st **pool, ferry_error_info *error);

/*
 * Makes `pool` the current one of a location, for the whole process. The pool must be of that location.
 *
 * Values:        `location`: FERRY_LOCATION_*.
 * Blocking:      driver_lock.
 * Ownership:     the pool stays the caller's.
 * Errors:        as ferry_pool_get_default; FERRY_ERROR_IMPORTED for a pool of another process.
 */
FERRY_API int32_t ferry_pool_set_current(ferry_instance *instance, int32_t location, int32_t index,
                                         struct CUmemPoolHandle_st *pool, ferry_error_info *error);

/*
 * Allocates `size` bytes from `pool` in the order of `stream`, which may be of another device than the pool. Default
 * streams belong to the pool's device; for pools in host memory, to the current context, else to device 0. The host may
 * use the address of memory from a pool in host memory too.
 *
 * Blocking:      driver_lock, as ferry_device_alloc_async.
 * Ownership:     as ferry_device_alloc_async.
 * Errors:        FERRY_ERROR_IMPORTED for a pool of another process, which cannot allocate; the driver's -1002 if it is
 *                out of memory or the pool is at its max_size.
 */
FERRY_API int32_t ferry_pool_alloc_async(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint64_t size,
                                         struct CUstream_st *stream, uint64_t *address, ferry_error_info *error);

/* The facts of one pool. */
typedef struct ferry_pool_info {
    uint32_t struct_size;
    int32_t location;      /* FERRY_LOCATION_* */
    int32_t index;         /* ordinal of the device, number of the NUMA node, or 0; -1: the location is unknown */
    uint32_t handle_types; /* FERRY_HANDLE_*; 0: none, or a pool that ferry did not create */
    uint64_t max_size;     /* bytes; 0: no limit of its own, or not created by ferry */
    int32_t is_default;    /* 1: the default pool of its location */
    int32_t is_imported;   /* 1: of another process. It serves only to import memory: it cannot allocate, trim, become
                          * current or report statistics or attributes */
    int32_t can_share;     /* 1: ferry_ipc_export_pool may succeed */
    uint32_t reserved;
} ferry_pool_info;

/*
 * Fills `info`. The driver does not report the location of a pool. The location of a pool that ferry did not create,
 * and that is neither the default pool nor the current one of a location, is FERRY_LOCATION_UNKNOWN, with index -1:
 * ferry_address_get_info reports the location of memory from the pool.
 *
 * Blocking:      driver_lock.
 */
FERRY_API int32_t ferry_pool_get_info(ferry_instance *instance, struct CUmemPoolHandle_st *pool, ferry_pool_info *info,
                                      ferry_error_info *error);

/* How a pool keeps and reuses memory. */
typedef struct ferry_pool_attributes {
    uint32_t struct_size;
    int32_t reuse_follow_event_dependencies; /* 1: reuse what another stream freed if an event orders the two streams */
    int32_t reuse_opportunistic;             /* 1: reuse what another stream freed if that free is already complete */
    int32_t reuse_internal_dependencies;     /* 1: reuse what another stream freed, and make this stream wait for it */
    uint64_t release_threshold;              /* bytes kept when a stream, event or context is waited for; at first 0 */
} ferry_pool_attributes;

/*
 * Fills `attributes`.
 *
 * Blocking:      driver_lock.
 * Errors:        FERRY_ERROR_IMPORTED for a pool of another process.
 */
FERRY_API int32_t ferry_pool_get_attributes(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                            ferry_pool_attributes *attributes, ferry_error_info *error);

/*
 * Sets all attributes; to change some, get all of them first. Attributes beyond the end of a shorter struct keep their
 * values.
 *
 * Blocking:      driver_lock.
 * Errors:        as ferry_pool_get_attributes; FERRY_ERROR_INVALID_ARGUMENT for flags that are neither 0 nor 1. If the
 *                driver refuses an attribute, others may already be set.
 */
FERRY_API int32_t ferry_pool_set_attributes(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                            const ferry_pool_attributes *attributes, ferry_error_info *error);

/*
 * Fills `stats` with this process's share.
 *
 * Thread-safety: safe; the numbers are read one after the other.
 * Blocking:      driver_lock.
 * Errors:        as ferry_pool_get_attributes.
 */
FERRY_API int32_t ferry_pool_get_stats(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                       ferry_pool_stats *stats, ferry_error_info *error);

/*
 * Resets both high-water marks to the current values.
 *
 * Blocking:      driver_lock.
 * Errors:        as ferry_pool_get_attributes.
 */
FERRY_API int32_t ferry_pool_reset_stats(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                         ferry_error_info *error);

/*
 * Releases memory that is not allocated, until the pool holds at most `keep` bytes or nothing more can be released.
 *
 * Blocking:      device. cuMemPoolTrimTo may wait for the device.
 * Errors:        as ferry_pool_get_attributes.
 */
FERRY_API int32_t ferry_pool_trim(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint64_t keep,
                                  ferry_error_info *error);

/* The access of a device to the memory of a pool. */
#define FERRY_ACCESS_NONE 0
#define FERRY_ACCESS_READ_WRITE 3

/*
 * Gives `device` access to all memory of `pool`, or removes that access. Before it removes access, the call waits for
 * the work of ferry's context for `device`; the program must wait for other work on the device itself. Peer access
 * between contexts does not give access to pools. ferry first checks by a driver query whether `device` can have
 * access, and queries the driver again after setting the access. Once for each pool and device, ferry sends data there
 * and back, because on some machines such data was lost without an error. An imported pool is accepted without that
 * test, since nothing can be allocated from it.
 *
 * Values:        `access`: FERRY_ACCESS_*.
 * Blocking:      device. FERRY_ACCESS_NONE waits as ferry_context_synchronize. The first access of a device waits for
 *                running work, and each call takes milliseconds while the driver maps the memory.
 * Errors:        FERRY_ERROR_PEER_ACCESS if `device` cannot access the pool's device, _DATA_LOST if the data was lost:
 *                access is then as before; _DEVICE also for FERRY_ACCESS_NONE on the pool's own device (READ_WRITE
 *                succeeds there); _INVALID_ARGUMENT for other values of `access`.
 */
FERRY_API int32_t ferry_pool_set_access(ferry_instance *instance, struct CUmemPoolHandle_st *pool, int32_t device,
                                        int32_t access, ferry_error_info *error);

/*
 * Sets *access to the access of `device` to memory of `pool`.
 *
 * Values:        `access`: FERRY_ACCESS_*.
 * Blocking:      driver_lock.
 */
FERRY_API int32_t ferry_pool_get_access(ferry_instance *instance, struct CUmemPoolHandle_st *pool, int32_t device,
                                        int32_t *access, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_MEMORY_H */
