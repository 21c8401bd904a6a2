/*
 * ferry: copies between host memory, GPU memory and CUDA arrays.
 *
 * One descriptor says what to copy; ferry checks it, finds a route and runs it. The library finds the NVIDIA driver
 * at run time; where there is none it runs on a driver in software and says so. This header is the whole C API and its
 * manual. It needs no CUDA header: CUDA's handles appear by their tags, so that a CUstream or a cudaStream_t is passed
 * without a cast, and device addresses are uint64_t.
 *
 * Conventions
 *   Units     X, width and row pitch are bytes; Y, height and slice height are rows; Z and depth are slices.
 *   Status    Calls return int32_t: 0 is success, -1 to -999 are ferry's own (FERRY_ERROR_*), and a driver's CUresult r
 *             comes back as -1000 - r. ferry_status_name and ferry_status_text explain any of them.
 *   Errors    A call that fails has done nothing, unless its comment says otherwise; what it would have handed out is 0
 *             or NULL. A pointer to ferry_error_info may always be NULL. FERRY_ERROR_INVALID_ARGUMENT also stands for
 *             a NULL where none is allowed.
 *   Contexts  Every call leaves the calling thread's current CUDA context as it found it, also when it fails, except
 *             ferry_context_push and ferry_context_pop, whose job it is. A thread without a context may call anything.
 *   Structs   ferry_options, ferry_array_desc, ferry_error_info and what ferry fills (ferry_report, ferry_device_info,
 *             ferry_address_info) begin with struct_size: set it to sizeof the struct. Programs built against an older
 *             header, with smaller structs, are served. Of larger ones, the bytes that this library does not know must
 *             be zero in what it reads, and are zeroed in what it fills (left alone in ferry_error_info). Sizes below 8
 *             or above 4096 are refused; a ferry_error_info below 8 is not filled. ferry_place and ferry_copy_desc
 *             never change; their reserved fields must be zero.
 *   Strings   Returned strings are UTF-8 and not to be freed. Only ferry_missing_entry_point may return NULL.
 *   Threads   Every function may be called from any number of threads at once on one instance, except ferry_close.
 *   Bindings  All constants fit int32_t, or uint32_t where they end in u: with bindgen, use
 *             --default-macro-constant-type signed. Callbacks have C's calling convention.
 */
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(FERRY_BUILD_SHARED)
#define FERRY_API __declspec(dllexport)
#elif defined(__GNUC__)
#define FERRY_API __attribute__((visibility("default")))
#else
#define FERRY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's own handles, by tag: CUcontext, CUstream and CUarray are pointers to these. */
struct CUctx_st;
struct CUstream_st;
struct CUarray_st;

/* One opened library. The only type of ferry's own that is opaque. */
typedef struct ferry_instance ferry_instance;

/* ---------------------------------------------------------------------------------------------------------------
 * Version
 * ------------------------------------------------------------------------------------------------------------ */

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0

/*
 * The version of the library that is loaded: major * 10000 + minor * 100 + patch.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        none.
 * Driver:        none.
 */
FERRY_API int32_t ferry_version(void);

/* ---------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------ */

#define FERRY_SUCCESS 0
#define FERRY_ERROR_INVALID_ARGUMENT (-1) /* a required pointer is NULL, or a value is outside its documented range */
#define FERRY_ERROR_OUT_OF_MEMORY (-2)    /* host memory for ferry's own use; device memory is a driver status */
#define FERRY_ERROR_ABI_MISMATCH (-3)     /* struct_size is out of range, or covers unknown bytes that are not zero */
#define FERRY_ERROR_RESERVED (-4)         /* a reserved field is not zero */
#define FERRY_ERROR_FLAGS (-5)            /* an unknown flag is set */
#define FERRY_ERROR_KIND (-6)             /* an unknown kind; full checks: the memory is not of the kind stated */
#define FERRY_ERROR_DEVICE (-7)           /* no such device; full checks: the memory is on another one than stated */
#define FERRY_ERROR_ADDRESS (-8)          /* a null address, no array; full checks: an address freed or foreign */
#define FERRY_ERROR_PITCH                                                                                              \
    (-9) /* row pitch below x + width or above the device's limit, slice height below y + height */
#define FERRY_ERROR_OVERFLOW (-10)        /* offsets and extent do not fit 64 bits */
#define FERRY_ERROR_OUT_OF_BOUNDS (-11)   /* the box reaches past the array; full checks: past the allocation */
#define FERRY_ERROR_OVERLAP (-12)         /* source and destination share bytes */
#define FERRY_ERROR_ARRAY_FORMAT (-13)    /* element sizes differ, or x or width is not a whole number of elements */
#define FERRY_ERROR_NO_DRIVER (-14)       /* no NVIDIA driver on this machine */
#define FERRY_ERROR_DRIVER_TOO_OLD (-15)  /* a driver older than CUDA 12.0, or one that lacks a required entry point */
#define FERRY_ERROR_NO_DEVICE (-16)       /* a driver, but no device that it can use */
#define FERRY_ERROR_UNSUPPORTED (-17)     /* this build or this driver has no such feature */
#define FERRY_ERROR_SOFTWARE_CONFIG (-18) /* the software driver already runs with other settings */
#define FERRY_ERROR_NO_CONTEXT (-19)      /* nothing to pop, or the context is not one that the call can use */

/* The status that stands for the driver's CUresult r, and back: r = FERRY_STATUS_DRIVER_BASE - status. */
#define FERRY_STATUS_DRIVER_BASE (-1000)

/*
 * The constant's name, such as "FERRY_ERROR_PITCH" or, for a driver's result, "CUDA_ERROR_INVALID_VALUE".
 * Driver names that this version of ferry does not know read "CUDA_ERROR_UNKNOWN_RESULT".
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     a static string.
 * Errors:        none; unknown statuses read "FERRY_ERROR_UNKNOWN_STATUS".
 * Driver:        none; it needs no instance.
 */
FERRY_API const char *ferry_status_name(int32_t status);

/*
 * What the status means, in a few English words.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     a static string.
 * Errors:        none; unknown statuses have a text too.
 * Driver:        none; it needs no instance.
 */
FERRY_API const char *ferry_status_text(int32_t status);

#define FERRY_STATUS_CONTEXT_DEAD 1u /* the context (or the driver) is lost: every later call on it will fail too */
#define FERRY_STATUS_RETRY 2u        /* the same call may succeed later, or once memory has been freed */

/*
 * What a caller may do about a status: FERRY_STATUS_CONTEXT_DEAD, FERRY_STATUS_RETRY, or 0.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        none; 0 for unknown statuses.
 * Driver:        none; it needs no instance.
 */
FERRY_API uint32_t ferry_status_traits(int32_t status);

/* Which side of a descriptor an error is about. */
#define FERRY_SIDE_NONE 0
#define FERRY_SIDE_SOURCE 1
#define FERRY_SIDE_DESTINATION 2
#define FERRY_SIDE_EXTENT 3
#define FERRY_SIDE_DESCRIPTOR 4 /* the descriptor's own flags and reserved fields */
#define FERRY_SIDE_OPTIONS 5    /* the options of ferry_open */

/* Which field. */
#define FERRY_FIELD_NONE 0
#define FERRY_FIELD_KIND 1
#define FERRY_FIELD_DEVICE 2
#define FERRY_FIELD_ADDRESS 3
#define FERRY_FIELD_ARRAY 4
#define FERRY_FIELD_ROW_PITCH 5
#define FERRY_FIELD_SLICE_HEIGHT 6
#define FERRY_FIELD_X 7
#define FERRY_FIELD_Y 8
#define FERRY_FIELD_Z 9
#define FERRY_FIELD_WIDTH 10
#define FERRY_FIELD_HEIGHT 11
#define FERRY_FIELD_DEPTH 12
#define FERRY_FIELD_FLAGS 13
#define FERRY_FIELD_RESERVED 14
#define FERRY_FIELD_STRUCT_SIZE 15
#define FERRY_FIELD_DRIVER 16
#define FERRY_FIELD_CHECKS 17
#define FERRY_FIELD_CALLBACKS 18 /* allocate without deallocate, or the reverse */
#define FERRY_FIELD_SOFTWARE 19  /* software_devices, software_queues or software_memory */

/*
 * What exactly was wrong. Set struct_size before the call (0 counts as 40, the size of the first version). Every call
 * that takes one fills it: after a success all other fields are 0.
 *
 * `value` is the offending value and `limit` the one it should have kept to, in the field's unit:
 *   PITCH               value: the pitch or slice height given; limit: the least, or the most, that would do
 *   OUT_OF_BOUNDS       value: one past the last byte, row or slice of the box (for memory: an address);
 *                       limit: one past the last there is (or the first, if the box begins before it)
 *   ARRAY_FORMAT        value: the x, the width or the destination's element size; limit: the element size to fit
 *   DEVICE              value: the ordinal given; limit: the number of devices, or the ordinal where the memory is
 *   OVERFLOW, FLAGS     value: what was given
 *   DRIVER_TOO_OLD      value: the driver's version; limit: the oldest that is served
 *   ABI_MISMATCH        value: the size given; limit: this library's
 * Both are 0 where a number says nothing. For a driver's status side and field are 0.
 */
typedef struct ferry_error_info {
    uint32_t struct_size;
    int32_t status; /* as returned */
    int32_t side;   /* FERRY_SIDE_* */
    int32_t field;  /* FERRY_FIELD_* */
    uint64_t index; /* for calls on many descriptors, which are still to come: always 0 */
    uint64_t limit;
    uint64_t value;
} ferry_error_info;

/*
 * Writes one readable line about `error` to `buffer`, such as
 * "destination.row_pitch: 100, at least 128 (FERRY_ERROR_PITCH)" or, for an info of which only status is set,
 * "no such device ... (FERRY_ERROR_DEVICE)", cut to `size` bytes with its ending zero.
 * Returns the length of the whole line without the zero, so a first call with size 0 measures.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's buffer; it may be NULL when size is 0.
 * Errors:        none; returns 0 for a NULL error.
 * Driver:        none.
 */
FERRY_API uint64_t ferry_error_format(const ferry_error_info *error, char *buffer, uint64_t size);

/* ---------------------------------------------------------------------------------------------------------------
 * Instance
 * ------------------------------------------------------------------------------------------------------------ */

/* Which driver. */
#define FERRY_DRIVER_AUTO 0     /* the NVIDIA driver if it has a usable device, else the software driver */
#define FERRY_DRIVER_CUDA 1     /* the NVIDIA driver or an error */
#define FERRY_DRIVER_SOFTWARE 2 /* the driver in software */

/* How much is checked before the driver sees a copy. */
#define FERRY_CHECKS_BASIC 0 /* arithmetic, pitches, array bounds and formats, overlap; what ANY means is asked */
#define FERRY_CHECKS_FULL 1  /* also that each address is of the kind and device stated and inside its allocation */

/* Levels of the log callback. */
#define FERRY_LOG_ERROR 0
#define FERRY_LOG_WARNING 1
#define FERRY_LOG_INFO 2

/*
 * How to open an instance. All zero but struct_size means: default everything.
 *
 * get_proc    The host program's own way to the driver, with cuGetProcAddress's meaning: the newest variant of `name`
 *             that is not newer than `version` (12000 is CUDA 12.0), in its legacy-stream form; NULL if there is
 *             none. A plain dlsym does not do: it finds first versions. It is called during ferry_open only, on the
 *             calling thread, and what it returns must stay valid until ferry_close. With it, no library is loaded.
 *             Not used with FERRY_DRIVER_SOFTWARE.
 * allocate    Host memory for ferry's own structures; alignment is a power of two. May return NULL. `deallocate` gets
 *             the size back. Both or neither. Never called by a copy. The software driver, being a driver,
 *             does not use them.
 * log         `message` is one line without its end, gone after the callback. ferry writes nowhere else.
 *
 * All callbacks are called from within calls of this instance (ferry_open and ferry_close too), on the calling thread,
 * so possibly on several threads at once. They must not call ferry and must not throw.
 */
typedef struct ferry_options {
    uint32_t struct_size;
    int32_t driver;            /* FERRY_DRIVER_* */
    int32_t checks;            /* FERRY_CHECKS_* */
    uint32_t software_devices; /* number of devices of the software driver, 1 to 64; 0 for the default, 2 */
    uint32_t software_queues;  /* hardware queues of each, 1 to 128; 0 for the default, 8 */
    uint32_t reserved;
    uint64_t software_memory; /* bytes of memory of each; 0 for the default, 4 GiB (taken only as it is written) */
    void *(*get_proc)(void *user, const char *name, int32_t version);
    void *get_proc_user;
    void *(*allocate)(void *user, uint64_t size, uint64_t alignment);
    void (*deallocate)(void *user, void *memory, uint64_t size);
    void *allocate_user;
    void (*log)(void *user, int32_t level, const char *message);
    void *log_user;
} ferry_options;

/*
 * Opens an instance. `options` may be NULL for the defaults. Several instances may be open at once; instances on the
 * software driver share it, so a later one that asks for other software_* values than the running ones is refused.
 *
 * Thread-safety: safe.
 * Blocking:      for as long as cuInit takes. No context is made until one is needed.
 * Ownership:     *instance is the caller's until ferry_close. `options` is read before return; the callbacks and
 *                what they use must live until ferry_close has returned. On failure *instance is NULL.
 * Errors:        FERRY_ERROR_NO_DRIVER, _DRIVER_TOO_OLD and _NO_DEVICE are three different machines, and a driver's
 *                own status from cuInit is a fourth (with AUTO none of them comes back: the software driver serves, and
 *                ferry_report says why). _ABI_MISMATCH, _RESERVED and _INVALID_ARGUMENT name the option;
 *                _SOFTWARE_CONFIG; _UNSUPPORTED where the build has no software driver; _OUT_OF_MEMORY.
 * Driver:        cuInit, cuDriverGetVersion, cuDeviceGetCount and the queries behind ferry_device_info.
 */
FERRY_API int32_t ferry_open(const ferry_options *options, ferry_instance **instance, ferry_error_info *error);

/*
 * Closes an instance: releases the contexts it retained and frees it. Memory, arrays and contexts made through the
 * instance are the caller's to free before. Harmless at process exit, after the driver has gone, and in the child of a
 * fork. NULL is allowed.
 *
 * Thread-safety: no other call on this instance may be running or come later.
 * Blocking:      never for ferry's own sake. Where the instance holds the last reference to a primary context, the
 *                driver waits for that context's work and then destroys it, with what lives in it. The last instance on
 *                the software driver also ends that driver: what runs ends first, then every address, array and context
 *                from it is gone.
 * Ownership:     *instance is gone.
 * Errors:        none.
 * Driver:        cuDevicePrimaryCtxRelease.
 */
FERRY_API void ferry_close(ferry_instance *instance);

/* What was found. */
typedef struct ferry_report {
    uint32_t struct_size;
    int32_t driver;         /* FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: what runs */
    int32_t driver_version; /* the CUDA version it supports: 1000 * major + 10 * minor */
    int32_t device_count;
    int32_t fallback_reason; /* why AUTO took the software driver, as ferry_open with CUDA would say; or 0 */
    uint32_t missing_count;  /* optional entry points that this driver lacks; see ferry_missing_entry_point */
    int32_t checks;          /* FERRY_CHECKS_* in force */
    uint32_t failed_peers; /* reserved in 0.1 */
} ferry_report;

/*
 * Fills `report` up to report->struct_size.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's struct.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH.
 * Driver:        none; found at ferry_open.
 */
FERRY_API int32_t ferry_get_report(const ferry_instance *instance, ferry_report *report);

/*
 * The name of the index-th optional entry point the driver lacks, such as "cuLaunchHostFunc"; NULL past the last.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     a static string.
 * Errors:        none.
 * Driver:        none.
 */
FERRY_API const char *ferry_missing_entry_point(const ferry_instance *instance, uint32_t index);

/*
 * A driver entry point as this instance reaches it: for calls beside ferry's on the same driver, software or not.
 * `version` as for cuGetProcAddress, such as 12000. The result is a function of the type that cudaTypedefs.h names
 * PFN_<name>_v<version>, or NULL.
 *
 * Thread-safety: safe if the host's own get_proc is.
 * Blocking:      never.
 * Ownership:     valid until ferry_close.
 * Errors:        NULL.
 * Driver:        cuGetProcAddress.
 */
FERRY_API void *ferry_get_proc(const ferry_instance *instance, const char *name, int32_t version);

/* ---------------------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------------------ */

/* What the number of copy engines lets a device do. */
#define FERRY_COPY_OVERLAP_NONE 0          /* no engine: copies and kernels take turns */
#define FERRY_COPY_OVERLAP_ONE_WAY 1       /* one engine: a copy in one direction at a time runs beside kernels */
#define FERRY_COPY_OVERLAP_BOTH_WAYS 2     /* two: one copy in each direction runs beside kernels */
#define FERRY_COPY_OVERLAP_BOTH_AND_MORE 3 /* more: also copies to peers or within the device beside those */

/* Handle types by which the device's memory pools can be shared (bits). */
#define FERRY_HANDLE_POSIX_FD 1u
#define FERRY_HANDLE_WIN32 2u
#define FERRY_HANDLE_WIN32_KMT 4u
#define FERRY_HANDLE_FABRIC 8u

/* The facts of one device. Flags are 0 or 1. */
typedef struct ferry_device_info {
    uint32_t struct_size;
    int32_t device; /* its ordinal */
    char name[128]; /* UTF-8, ends with zero */
    uint8_t uuid[16];
    char pci_address[32];  /* domain:bus:device.function, such as "0000:3B:00.0" */
    uint64_t total_memory; /* bytes */
    uint64_t max_pitch;    /* bytes: the largest row pitch a copy may have */
    int32_t is_software;
    int32_t compute_major;
    int32_t compute_minor;
    int32_t multiprocessor_count;
    int32_t copy_engine_count;
    int32_t overlap;            /* FERRY_COPY_OVERLAP_*: what that count means */
    int32_t unified_addressing; /* one address space with the host: kind ANY works */
    int32_t pageable_access;    /* kernels may read pageable host memory */
    int32_t pageable_uses_host_page_tables;
    int32_t can_map_host_memory;
    int32_t host_register;                        /* ferry_host_register works */
    int32_t host_register_read_only;              /* FERRY_REGISTER_READ_ONLY works */
    int32_t registered_address_is_device_address; /* registered memory has one address for host and device */
    int32_t managed_memory;
    int32_t concurrent_managed_access;
    int32_t memory_pools;            /* stream-ordered allocation works */
    uint32_t pool_handle_types;      /* FERRY_HANDLE_* */
    int32_t numa_node;               /* of the host memory nearest to it; -1 where the driver does not tell */
    int32_t integrated;              /* shares the host's physical memory */
    int32_t texture_pitch_alignment; /* bytes */
} ferry_device_info;

/*
 * Fills `info` up to info->struct_size with the facts of device number `device`.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's struct.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE.
 * Driver:        none; cuDeviceGetAttribute and its like were asked at ferry_open.
 */
FERRY_API int32_t ferry_get_device_info(const ferry_instance *instance, int32_t device, ferry_device_info *info);

/* ---------------------------------------------------------------------------------------------------------------
 * Contexts
 *
 * ferry needs a context for each device it works on. It uses the one the host program adopted for that device, else
 * it retains the primary context, on first need, until ferry_close. None of this is needed to copy.
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Retains the device's primary context for the caller. Each call needs one ferry_context_release_primary.
 *
 * Thread-safety: safe.
 * Blocking:      while the driver makes the context, on the first retain in the process (up to hundreds of ms).
 * Ownership:     one reference to *context is the caller's.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own.
 * Driver:        cuDevicePrimaryCtxRetain.
 */
FERRY_API int32_t ferry_context_retain_primary(ferry_instance *instance, int32_t device, struct CUctx_st **context);

/*
 * Gives back one reference to the device's primary context.
 *
 * Thread-safety: safe.
 * Blocking:      the driver's, if this was the last reference in the process.
 * Ownership:     the reference is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own.
 * Driver:        cuDevicePrimaryCtxRelease.
 */
FERRY_API int32_t ferry_context_release_primary(ferry_instance *instance, int32_t device);

/*
 * Creates a context of the caller's own on `device`. Unlike cuCtxCreate it does not become current.
 * `flags` are CUctx_flags; 0 is the driver's default.
 *
 * Thread-safety: safe.
 * Blocking:      while the driver makes the context.
 * Ownership:     *context is the caller's, to be given to ferry_context_destroy.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own.
 * Driver:        cuCtxCreate (as of CUDA 3.2), cuCtxPopCurrent.
 */
FERRY_API int32_t ferry_context_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                       struct CUctx_st **context);

/*
 * Destroys a context made by ferry_context_create, with all that lives in it. If it was adopted, the device goes back
 * to its primary context. No thread may have it current, and no other call may be using it.
 *
 * Thread-safety: safe.
 * Blocking:      until the context's work has ended.
 * Ownership:     the context is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own.
 * Driver:        cuCtxDestroy.
 */
FERRY_API int32_t ferry_context_destroy(ferry_instance *instance, struct CUctx_st *context);

/*
 * Makes ferry use the host program's `context` for the device that it belongs to, from the next call on, instead of
 * the primary one. NULL for `context`: `device` goes back to its primary context; otherwise `device` is not read.
 *
 * Thread-safety: safe; calls already running on other threads may still use the former context.
 * Blocking:      never.
 * Ownership:     the context stays the caller's and must live until another is adopted or the instance is closed.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own for an invalid context.
 * Driver:        cuCtxPushCurrent, cuCtxGetDevice, cuCtxPopCurrent.
 */
FERRY_API int32_t ferry_context_adopt(ferry_instance *instance, int32_t device, struct CUctx_st *context);

/*
 * Makes `context` current on the calling thread, on top of what was; `device` is not read then. NULL: the context that
 * ferry uses for `device`.
 *
 * Thread-safety: safe; it concerns the calling thread alone.
 * Blocking:      as ferry_context_retain_primary, if `context` is NULL and the primary was not retained yet.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own.
 * Driver:        cuCtxPushCurrent.
 */
FERRY_API int32_t ferry_context_push(ferry_instance *instance, int32_t device, struct CUctx_st *context);

/*
 * Pops the calling thread's current context; *context, if `context` is not NULL, tells which it was.
 *
 * Thread-safety: safe; it concerns the calling thread alone.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _NO_CONTEXT where there was none; the driver's own.
 * Driver:        cuCtxPopCurrent.
 */
FERRY_API int32_t ferry_context_pop(ferry_instance *instance, struct CUctx_st **context);

/*
 * The calling thread's current context; NULL if it has none.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own.
 * Driver:        cuCtxGetCurrent.
 */
FERRY_API int32_t ferry_context_current(ferry_instance *instance, struct CUctx_st **context);

/*
 * Waits until all work of `context` has ended; `device` is not read then. NULL: the context that ferry uses for
 * `device`, which need not be the one that the calling thread has current.
 *
 * Thread-safety: safe.
 * Blocking:      yes, that is its job.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE; the driver's own, late errors of earlier work among them.
 * Driver:        cuCtxSynchronize.
 */
FERRY_API int32_t ferry_context_synchronize(ferry_instance *instance, int32_t device, struct CUctx_st *context);

/* ---------------------------------------------------------------------------------------------------------------
 * Memory
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Allocates `size` bytes on `device`, aligned to 256 bytes or more.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device, as cuMemAlloc may.
 * Ownership:     *address is the caller's until ferry_device_free.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT (size 0 too), _DEVICE; the driver's own (out of memory: -1002).
 * Driver:        cuMemAlloc.
 */
FERRY_API int32_t ferry_device_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address);

/*
 * Allocates `height` rows of `width` bytes on `device`, each row aligned well for elements of `element_size` bytes
 * (4, 8 or 16; 0 counts as 4). *row_pitch is the bytes from one row to the next.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device, as cuMemAllocPitch may.
 * Ownership:     *address is the caller's until ferry_device_free.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT (a 0 width or height too), _DEVICE; the driver's own, also for other
 *                element sizes.
 * Driver:        cuMemAllocPitch.
 */
FERRY_API int32_t ferry_device_alloc_pitched(ferry_instance *instance, int32_t device, uint64_t width, uint64_t height,
                                             uint32_t element_size, uint64_t *address, uint64_t *row_pitch);

/*
 * Frees what ferry_device_alloc or ferry_device_alloc_pitched gave. 0 is allowed.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the device has ended, as cuMemFree does.
 * Ownership:     the memory is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ADDRESS if the address is not device memory; the driver's own.
 * Driver:        cuPointerGetAttribute, cuMemFree.
 */
FERRY_API int32_t ferry_device_free(ferry_instance *instance, uint64_t address);

#define FERRY_HOST_WRITE_COMBINED 1u /* fast to write, very slow to read for the CPU */

/*
 * Allocates `size` bytes of pinned host memory, usable and mapped on every device.
 * `flags`: 0 or FERRY_HOST_WRITE_COMBINED.
 *
 * Thread-safety: safe.
 * Blocking:      yes, for about half a second per GiB.
 * Ownership:     *address is the caller's until ferry_host_free.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT (size 0 too), _FLAGS; the driver's own (out of memory: -1002).
 * Driver:        cuMemHostAlloc with PORTABLE and DEVICEMAP.
 */
FERRY_API int32_t ferry_host_alloc(ferry_instance *instance, uint64_t size, uint32_t flags, void **address);

/*
 * Frees what ferry_host_alloc gave. NULL is allowed.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the devices has ended.
 * Ownership:     the memory is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own.
 * Driver:        cuMemFreeHost.
 */
FERRY_API int32_t ferry_host_free(ferry_instance *instance, void *address);

#define FERRY_REGISTER_READ_ONLY 1u /* the devices only read it; for memory the process itself may only read */

/*
 * Pins `size` bytes of the caller's own memory where they lie, for every device.
 * `flags`: 0 or FERRY_REGISTER_READ_ONLY.
 *
 * Thread-safety: safe.
 * Blocking:      yes: pages are faulted in and pinned.
 * Ownership:     the memory stays the caller's and must stay mapped until ferry_host_unregister.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _FLAGS; the driver's own (already registered: -1712).
 * Driver:        cuMemHostRegister with PORTABLE and DEVICEMAP.
 */
FERRY_API int32_t ferry_host_register(ferry_instance *instance, void *address, uint64_t size, uint32_t flags);

/*
 * Undoes ferry_host_register; `address` is the one given there.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the devices has ended.
 * Ownership:     the memory is the caller's as before.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own (not registered: -1713).
 * Driver:        cuMemHostUnregister.
 */
FERRY_API int32_t ferry_host_unregister(ferry_instance *instance, void *address);

/* What an array is made of; the values are CUarray_format's, and any of its others is passed to the driver too. */
#define FERRY_FORMAT_UINT8 0x01
#define FERRY_FORMAT_UINT16 0x02
#define FERRY_FORMAT_UINT32 0x03
#define FERRY_FORMAT_SINT8 0x08
#define FERRY_FORMAT_SINT16 0x09
#define FERRY_FORMAT_SINT32 0x0a
#define FERRY_FORMAT_HALF 0x10
#define FERRY_FORMAT_FLOAT 0x20

#define FERRY_ARRAY_SURFACE 0x02u        /* kernels may write it through a surface (CUDA_ARRAY3D_SURFACE_LDST) */
#define FERRY_ARRAY_TEXTURE_GATHER 0x08u /* 2D only (CUDA_ARRAY3D_TEXTURE_GATHER) */

/* An array's shape. width, height and depth are elements; height 0 is a 1D array, depth 0 a 1D or 2D array. */
typedef struct ferry_array_desc {
    uint32_t struct_size;
    int32_t format;    /* FERRY_FORMAT_* */
    uint32_t channels; /* 1, 2 or 4 */
    uint32_t flags;    /* FERRY_ARRAY_* */
    uint64_t width;
    uint64_t height;
    uint64_t depth;
} ferry_array_desc;

/*
 * Creates a CUDA array on `device`. Layered, cubemap and mipmapped ones come from the driver (ferry_get_proc); a copy
 * takes any CUarray.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device.
 * Ownership:     *array, a CUarray, is the caller's until ferry_array_destroy.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE, _FLAGS; the driver's own for formats, channels
 *                and sizes that it does not have.
 * Driver:        cuArray3DCreate.
 */
FERRY_API int32_t ferry_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                     struct CUarray_st **array);

/*
 * Destroys an array. NULL is allowed.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the device has ended.
 * Ownership:     the array is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own.
 * Driver:        cuArrayDestroy.
 */
FERRY_API int32_t ferry_array_destroy(ferry_instance *instance, struct CUarray_st *array);

/*
 * Fills `desc`, up to desc->struct_size, from any CUarray. *element_size, if not NULL, is the bytes of one element: of
 * a block of 4 x 4 texels for block-compressed formats, whose copies count blocks; 0 for formats that have no such
 * thing (planar ones).
 *
 * Thread-safety: safe.
 * Blocking:      never, but on a thread without a context as ferry_context_retain_primary.
 * Ownership:     the caller's struct.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH; the driver's own for what is no array, where it tells.
 * Driver:        cuArray3DGetDescriptor.
 */
FERRY_API int32_t ferry_array_describe(ferry_instance *instance, struct CUarray_st *array, ferry_array_desc *desc,
                                       uint32_t *element_size);

/* What kind of memory lies at an address. */
#define FERRY_MEMORY_PAGEABLE 0 /* nothing the driver knows: ordinary host memory, or no memory at all */
#define FERRY_MEMORY_PINNED 1   /* allocated pinned, or registered */
#define FERRY_MEMORY_DEVICE 2
#define FERRY_MEMORY_MANAGED 3

typedef struct ferry_address_info {
    uint32_t struct_size;
    int32_t memory; /* FERRY_MEMORY_* */
    int32_t device; /* where device memory lies; -1 otherwise */
    uint32_t reserved;
    uint64_t range_start;    /* the allocation or registration around the address; 0 where the driver does not tell */
    uint64_t range_size;     /* bytes */
    uint64_t device_address; /* the address that a kernel uses for the same byte; 0 for pageable memory */
} ferry_address_info;

/*
 * What is this address? Fills `info` up to info->struct_size.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's struct.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH. An address the driver does not know is pageable.
 * Driver:        cuPointerGetAttributes.
 */
FERRY_API int32_t ferry_get_address_info(ferry_instance *instance, uint64_t address, ferry_address_info *info);

/* ---------------------------------------------------------------------------------------------------------------
 * Copies
 * ------------------------------------------------------------------------------------------------------------ */

/* What a place is. */
#define FERRY_KIND_ANY 0    /* `address` decides; what the driver does not know is taken for host memory */
#define FERRY_KIND_HOST 1   /* `address` is host memory, pageable or pinned */
#define FERRY_KIND_DEVICE 2 /* `address` is device (or managed) memory on `device` */
#define FERRY_KIND_ARRAY 3  /* `array` is a CUDA array on `device` */

#define FERRY_DEVICE_UNKNOWN (-1) /* DEVICE: asks the driver. ARRAY: the device of the stream or of the other place */

/*
 * One end of a copy. The bytes begin at x (bytes), y (rows), z (slices) from the address or the array's first element.
 *
 * row_pitch     bytes from one row to the next, at least x + width; 0: rows lie tight, width bytes apart, which leaves
 * no room for an x if the copy has rows or begins at one. Not read for arrays. slice_height  rows from one slice to the
 * next, at least y + height: the allocation's height, not the copy's; 0: slices lie tight, height rows apart, which
 * leaves no room for a y likewise. Not read for arrays. device        not read for ANY and HOST.
 *
 * A wrong address is refused with full checks only. With basic ones the driver may refuse it, or the process may crash,
 * as with the driver's own calls.
 */
typedef struct ferry_place {
    int32_t kind;   /* FERRY_KIND_* */
    int32_t device; /* ordinal, or FERRY_DEVICE_UNKNOWN */
    uint64_t address;
    struct CUarray_st *array;
    uint64_t row_pitch;
    uint64_t slice_height;
    uint64_t x;
    uint64_t y;
    uint64_t z;
    uint64_t reserved[4]; /* must be zero */
} ferry_place;

/*
 * One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0 count as 1.
 * With width 0 nothing is copied, and that is a success, once kinds, devices, flags and reserved fields are right.
 */
typedef struct ferry_copy_desc {
    ferry_place source;
    ferry_place destination;
    uint64_t width;  /* bytes */
    uint64_t height; /* rows */
    uint64_t depth;  /* slices */
    uint32_t flags;  /* must be zero */
    uint32_t reserved0;
    uint64_t reserved[4]; /* must be zero */
} ferry_copy_desc;

/*
 * Builders: each overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer
 * starts at layer number `layer` of a layered array (of a cubemap: at that face), which is its z.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's struct.
 * Errors:        none here: ferry_copy checks. A NULL place is ignored.
 * Driver:        none.
 */
FERRY_API void ferry_place_any(ferry_place *place, uint64_t address);
FERRY_API void ferry_place_host(ferry_place *place, const void *address);
FERRY_API void ferry_place_host_pitched(ferry_place *place, const void *address, uint64_t row_pitch,
                                        uint64_t slice_height);
FERRY_API void ferry_place_device(ferry_place *place, int32_t device, uint64_t address);
FERRY_API void ferry_place_device_pitched(ferry_place *place, int32_t device, uint64_t address, uint64_t row_pitch,
                                          uint64_t slice_height);
FERRY_API void ferry_place_array(ferry_place *place, int32_t device, struct CUarray_st *array);
FERRY_API void ferry_place_array_layer(ferry_place *place, int32_t device, struct CUarray_st *array, uint64_t layer);

/*
 * Fills a descriptor from two places and an extent; a NULL place leaves that end all zero.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's structs; the places may be those inside *copy.
 * Errors:        none here: ferry_copy checks. A NULL copy is ignored.
 * Driver:        none.
 */
FERRY_API void ferry_copy_desc_init(ferry_copy_desc *copy, const ferry_place *source, const ferry_place *destination,
                                    uint64_t width, uint64_t height, uint64_t depth);

/*
 * Copies, and returns when the bytes are there: visible to the host, to every stream and to every other thread.
 * It is ordered like a driver call on the legacy default stream of its context: after earlier work on that stream
 * and on streams that synchronise with it; work on non-blocking streams is the caller's to order.
 * The context is the calling thread's current one, else that of the destination's device, else of the source's, else of
 * device 0.
 *
 * Thread-safety: safe.
 * Blocking:      until the copy is complete.
 * Ownership:     `copy` is read before return.
 * Errors:        FERRY_ERROR_KIND, _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP, _ARRAY_FORMAT,
 *                _FLAGS, _RESERVED name the field in `error`, and nothing was copied; _INVALID_ARGUMENT for NULL; the
 *                driver's own, which may also report earlier asynchronous work that failed.
 * Driver:        cuMemcpy3D or, between two devices, cuMemcpy3DPeer; then cuStreamSynchronize where those return early
 *                (device to device, pageable host to device).
 */
FERRY_API int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, ferry_error_info *error);

#define FERRY_STREAM_LEGACY 1
#define FERRY_STREAM_PER_THREAD 2

/*
 * Enqueues a copy on `stream`: it starts after the work before it there, and is complete for the work after it.
 * Any stream of the caller's will do, a CUstream or cudaStream_t. NULL and FERRY_STREAM_LEGACY are the legacy default
 * stream, FERRY_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for
 * those three it is found as for ferry_copy. Programs without CUDA headers make streams by
 * ferry_get_proc("cuStreamCreate").
 *
 * Thread-safety: safe.
 * Blocking:      does not wait for the GPU, except where an end is pageable host memory: the driver's own pageable
 *                copies may wait for earlier work on the stream and for the copy itself.
 * Ownership:     `copy` is read before return; the memory it names must live until the stream has passed the copy.
 * Errors:        as ferry_copy; nothing was enqueued. What goes wrong later comes back from a later call that
 *                synchronises.
 * Driver:        cuMemcpy3DAsync or cuMemcpy3DPeerAsync.
 */
FERRY_API int32_t ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy, struct CUstream_st *stream,
                                   ferry_error_info *error);

/*
 * The short form in one dimension: `size` bytes from address to address, both of kind ANY, otherwise as ferry_copy.
 * Host addresses are passed as integers: (uint64_t)(uintptr_t)pointer.
 *
 * Thread-safety: safe.
 * Blocking:      until the copy is complete.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_ADDRESS, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP; as ferry_copy.
 * Driver:        as ferry_copy, after cuPointerGetAttributes for each address.
 */
FERRY_API int32_t ferry_copy_bytes(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                   ferry_error_info *error);

/*
 * ferry_copy_bytes on a stream, as ferry_copy_async.
 *
 * Thread-safety: safe.
 * Blocking:      as ferry_copy_async.
 * Ownership:     the memory must live until the stream has passed the copy.
 * Errors:        as ferry_copy_bytes; nothing was enqueued.
 * Driver:        as ferry_copy_async, after cuPointerGetAttributes for each address.
 */
FERRY_API int32_t ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                         struct CUstream_st *stream, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif
