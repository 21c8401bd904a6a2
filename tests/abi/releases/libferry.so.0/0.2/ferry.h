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
 *   Errors    A call that fails has done nothing, unless its comment says otherwise; pointers, handles and numbers that
 *             it would have handed out are 0 or NULL, structs that it would have filled are left as they were. A
 *             pointer to ferry_error_info may always be NULL. FERRY_ERROR_INVALID_ARGUMENT also stands for a NULL where
 *             none is allowed.
 *   Contexts  Every call leaves the calling thread's current CUDA context as it found it, also when it fails, except
 *             ferry_context_push and ferry_context_pop, whose job it is. A thread without a context may call anything.
 *             What is given a device works in the context that ferry uses for it (see Contexts), and the first such
 *             call may take as long as ferry_context_retain_primary. What is not works in the current one, else in
 *             device 0's. Memory, arrays, streams and events end with the context they were made in, if nobody ends
 *             them before.
 *   Structs   ferry_options, ferry_array_desc, ferry_error_info and what ferry fills (ferry_report, ferry_device_info,
 *             ferry_peer_info, ferry_address_info, ferry_explanation) begin with struct_size: set it to sizeof the
 *             struct. Programs built against an older header, with smaller structs, are served. Of larger ones, the
 *             bytes that this library does not know must be zero in what it reads, and are zeroed in what it fills
 *             (left alone in ferry_error_info). Sizes below 8 or above 4096 are refused; a ferry_error_info of 1 to 7
 *             is not filled. ferry_place, ferry_copy_desc and ferry_fill_desc never change; their reserved fields must
 *             be zero.
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

/* CUDA's own handles, by tag: CUcontext, CUstream, CUevent, CUarray and CUmipmappedArray are pointers to these, and so
 * are cudaStream_t and cudaEvent_t. The runtime's cudaArray_t and cudaMipmappedArray_t are the same handles under other
 * tags and take a cast. */
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUarray_st;
struct CUmipmappedArray_st;

/* One opened library. The only type of ferry's own that is opaque. */
typedef struct ferry_instance ferry_instance;

/* ---------------------------------------------------------------------------------------------------------------
 * Version
 * ------------------------------------------------------------------------------------------------------------ */

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 2
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
#define FERRY_ERROR_KIND (-6)    /* an unknown kind; not the kind stated (full checks); a fill of pageable memory */
#define FERRY_ERROR_DEVICE (-7)  /* no such device; full checks: the memory is on another one than stated */
#define FERRY_ERROR_ADDRESS (-8) /* a null address, no array; full checks: an address freed or foreign */
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
#define FERRY_ERROR_PEER_ACCESS (-20)     /* no access between the two devices, or the probe lost data */
#define FERRY_ERROR_ALIGNMENT (-21)       /* an address, pitch or width is no multiple of the pattern's size */

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
#define FERRY_FIELD_PATTERN 20   /* pattern_size */

/*
 * What exactly was wrong. Set struct_size before the call (0 counts as 40, the size of the first version, and becomes
 * 40; 1 to 7 is not filled). Every call that takes one fills it: after a success all other fields are 0.
 *
 * `value` is the offending value and `limit` the one it should have kept to, in the field's unit:
 *   PITCH               value: the pitch or slice height given; limit: the least, or the most, that would do
 *   OUT_OF_BOUNDS       value: one past the last byte, row or slice of the box (for memory: an address);
 *                       limit: one past the last there is (or the first, if the box begins before it)
 *   ARRAY_FORMAT        value: the x, the width or the destination's element size; limit: the element size to fit
 *   DEVICE              value: the ordinal given; limit: the number of devices, or the ordinal where the memory is, or
 *                       of a fill the one where the stream is
 *   OVERFLOW, FLAGS     value: what was given
 *   ALIGNMENT           value: the address, pitch or width; limit: what it must be a multiple of
 *   UNSUPPORTED         value: the pattern's size, depth or layer given; limit: the most, or the layer, that works
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
 * Closes an instance: releases the contexts it retained and frees it. What was made through the instance (memory,
 * registrations, arrays, streams, events, contexts) is the caller's to free before. Harmless at process exit, after the
 * driver has gone, and in the child of a fork. NULL is allowed.
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
    uint32_t failed_peers;   /* ordered pairs of devices between which a probe with data failed so far */
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
 * Peers
 *
 * A copy between two devices needs none of this. With peer access the bytes take the link between the devices instead
 * of a detour through the host. Access has a direction: `device` reaches the memory of `peer`.
 * ------------------------------------------------------------------------------------------------------------ */

/* What came of sending data through a pair of devices. */
#define FERRY_PROBE_NOT_RUN 0
#define FERRY_PROBE_PASSED 1
#define FERRY_PROBE_FAILED 2 /* the driver reports access, but bytes do not arrive: the pair counts as having none */

/* One ordered pair of devices. */
typedef struct ferry_peer_info {
    uint32_t struct_size;
    int32_t device;
    int32_t peer;
    int32_t can_access;        /* 1: `device` can reach the memory of `peer`: the driver says so, and no probe failed */
    int32_t driver_can_access; /* what the driver says */
    int32_t probe;             /* FERRY_PROBE_*: in this instance */
    int32_t performance_rank;  /* the driver's ranking of the links, 0 for the best; -1 where it does not tell */
    int32_t native_atomics;    /* 1: atomic operations work across the link; 0 also where the driver does not tell */
    int32_t array_access;      /* 1: arrays can be reached too; 0 also where the driver does not tell */
    uint32_t reserved;
} ferry_peer_info;

/*
 * Fills `info` up to info->struct_size for `device` reaching the memory of `peer`. Runs no probe.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's struct.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ABI_MISMATCH, _DEVICE (also for a device and itself).
 * Driver:        cuDeviceCanAccessPeer, cuDeviceGetP2PAttribute.
 */
FERRY_API int32_t ferry_get_peer_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info);

/*
 * Whether bytes arrive where `device` reaches the memory of `peer`: some machines report peer access and move nothing.
 * Reads 64 KiB from the peer and writes as much to it, with access enabled, and compares them; that says nothing of
 * `peer` reaching `device`. It is done once per ordered pair and instance; later calls return what the first one found.
 * Access is afterwards what it was before.
 *
 * Thread-safety: safe on one instance; the program and other instances must not enable or disable the pair meanwhile.
 * Blocking:      the first time, for some milliseconds and as ferry_context_retain_primary.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_PEER_ACCESS: there is none, or the data was lost (ferry_get_peer_info tells which);
 *                _DEVICE, _INVALID_ARGUMENT, _OUT_OF_MEMORY, _UNSUPPORTED; the driver's own, and then nothing is
 *                remembered.
 * Driver:        cuDeviceCanAccessPeer, cuThreadExchangeStreamCaptureMode, cuCtxEnablePeerAccess,
 *                cuStreamCreateWithPriority, cuMemAlloc, cuMemcpy3DPeerAsync, cuStreamSynchronize, cuMemFree,
 *                cuStreamDestroy, cuCtxDisablePeerAccess.
 */
FERRY_API int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer);

/*
 * Lets `device` reach the memory of `peer`, between the contexts that ferry uses for the two, once data has come
 * through as for ferry_peer_probe. Access belongs to that pair of contexts, not to the instance, and is not counted: it
 * lasts until anyone in the process disables it or one of them ends, and ferry_close leaves it; after
 * ferry_context_adopt call again. Access that is enabled already is a success.
 *
 * Thread-safety: safe.
 * Blocking:      while the driver maps the peer's memory; the first time also as ferry_peer_probe.
 * Ownership:     none.
 * Errors:        as ferry_peer_probe.
 * Driver:        cuCtxEnablePeerAccess, then the first time as ferry_peer_probe.
 */
FERRY_API int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer);

/*
 * Undoes ferry_peer_enable. Access that is not enabled is a success. Copies between the two go on working.
 *
 * Thread-safety: safe.
 * Blocking:      until work that uses the access has ended.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_DEVICE, _INVALID_ARGUMENT, _UNSUPPORTED; the driver's own.
 * Driver:        cuCtxDisablePeerAccess.
 */
FERRY_API int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer);

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
 * Streams and events
 *
 * For programs without CUDA's headers. Streams and events of the host program's own, a CUstream or cudaStream_t and a
 * CUevent or cudaEvent_t, serve everywhere as well as those made here.
 * ------------------------------------------------------------------------------------------------------------ */

/* These two, cast to a pointer, (struct CUstream_st *)(uintptr_t)FERRY_STREAM_LEGACY, and NULL stand for the default
 * streams of a context, and which one that is depends on the call: of a copy the calling thread's current context, else
 * that of the destination's device; of a fill the one of the memory's device; of the calls below the current one, else
 * device 0's. To wait for what was enqueued on a default stream, take ferry_context_synchronize, or a stream of your
 * own to begin with. NULL is the legacy one also in programs compiled with --default-stream per-thread: those pass
 * FERRY_STREAM_PER_THREAD. */
#define FERRY_STREAM_LEGACY 1
#define FERRY_STREAM_PER_THREAD 2

#define FERRY_STREAM_NON_BLOCKING 1u /* not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING) */

/*
 * Creates a stream on `device`. `flags`: 0 or FERRY_STREAM_NON_BLOCKING. `priority`: 0 is the lowest, negative numbers
 * are more urgent, down to a limit that the driver applies; copies do not heed it.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device.
 * Ownership:     *stream, a CUstream, is the caller's until ferry_stream_destroy.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE, _FLAGS, _UNSUPPORTED; the driver's own.
 * Driver:        cuStreamCreateWithPriority.
 */
FERRY_API int32_t ferry_stream_create(ferry_instance *instance, int32_t device, uint32_t flags, int32_t priority,
                                      struct CUstream_st **stream);

/*
 * Destroys a stream; what is enqueued on it still runs to its end. NULL is allowed.
 *
 * Thread-safety: safe; no other call may be using the stream.
 * Blocking:      never.
 * Ownership:     the stream is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT (the default streams too), _UNSUPPORTED; the driver's own.
 * Driver:        cuStreamDestroy.
 */
FERRY_API int32_t ferry_stream_destroy(ferry_instance *instance, struct CUstream_st *stream);

/*
 * Waits until all work enqueued on `stream` has ended. The default streams are those of the current context, else of
 * device 0's.
 *
 * Thread-safety: safe.
 * Blocking:      yes, that is its job.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT; the driver's own, late errors of earlier work among them.
 * Driver:        cuStreamSynchronize.
 */
FERRY_API int32_t ferry_stream_synchronize(ferry_instance *instance, struct CUstream_st *stream);

/*
 * Sets *done to 1 if all work enqueued on `stream` has ended, else to 0; to 0 also on failure, so a loop must look at
 * the status. Default streams as for ferry_stream_synchronize.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own, late errors of earlier work among them.
 * Driver:        cuStreamQuery.
 */
FERRY_API int32_t ferry_stream_query(ferry_instance *instance, struct CUstream_st *stream, int32_t *done);

/*
 * Makes what is enqueued on `stream` from now on wait for `event` as it was last recorded, on whatever device that was.
 * An event never recorded is not waited for. Default streams as for ferry_stream_synchronize.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none; the event may be destroyed or recorded again at once.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own.
 * Driver:        cuStreamWaitEvent.
 */
FERRY_API int32_t ferry_stream_wait_event(ferry_instance *instance, struct CUstream_st *stream,
                                          struct CUevent_st *event);

#define FERRY_EVENT_BLOCKING_SYNC 1u  /* ferry_event_synchronize sleeps instead of spinning */
#define FERRY_EVENT_DISABLE_TIMING 2u /* cheaper; ferry_event_elapsed_time does not take it */

/*
 * Creates an event on `device`; it can be recorded on streams of that device. `flags`: 0 or FERRY_EVENT_* bits.
 *
 * Thread-safety: safe.
 * Blocking:      never, but on first need as ferry_context_retain_primary.
 * Ownership:     *event, a CUevent, is the caller's until ferry_event_destroy.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _DEVICE, _FLAGS, _UNSUPPORTED; the driver's own.
 * Driver:        cuEventCreate.
 */
FERRY_API int32_t ferry_event_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                     struct CUevent_st **event);

/*
 * Destroys an event; calls and streams that already wait for it are not affected. NULL is allowed.
 *
 * Thread-safety: safe; no other call may be using the event.
 * Blocking:      never.
 * Ownership:     the event is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own.
 * Driver:        cuEventDestroy.
 */
FERRY_API int32_t ferry_event_destroy(ferry_instance *instance, struct CUevent_st *event);

/*
 * Records `event` after the work enqueued on `stream` so far, which must be a stream of the event's own context.
 * Default streams as for ferry_stream_synchronize: for an event of another device, name a stream.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own (a stream of another context: -1400).
 * Driver:        cuEventRecord.
 */
FERRY_API int32_t ferry_event_record(ferry_instance *instance, struct CUevent_st *event, struct CUstream_st *stream);

/*
 * Waits until the work before the event's last record has ended; returns at once if it was never recorded.
 *
 * Thread-safety: safe.
 * Blocking:      yes, that is its job.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own, late errors of earlier work among them.
 * Driver:        cuEventSynchronize.
 */
FERRY_API int32_t ferry_event_synchronize(ferry_instance *instance, struct CUevent_st *event);

/*
 * Sets *done to 1 if the work before the event's last record has ended or there was none, else to 0; to 0 also on
 * failure, so a loop must look at the status.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own, late errors of earlier work among them.
 * Driver:        cuEventQuery.
 */
FERRY_API int32_t ferry_event_query(ferry_instance *instance, struct CUevent_st *event, int32_t *done);

/*
 * The time from `start` to `end`, two events of one context that have both passed, in milliseconds, to about half a
 * microsecond; negative if `end` passed first.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     none.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own (not passed yet: -1600; never recorded,
 *                without timing, or of two contexts: -1400).
 * Driver:        cuEventElapsedTime.
 */
FERRY_API int32_t ferry_event_elapsed_time(ferry_instance *instance, struct CUevent_st *start, struct CUevent_st *end,
                                           float *milliseconds);

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
 * Allocates `size` bytes of managed memory: one address for the host and every device, between which the driver moves
 * the pages. `device` is the one whose context asks for it. Where ferry_device_info says concurrent_managed_access 0,
 * the host must not touch it while any device has work.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device.
 * Ownership:     *address is the caller's until ferry_device_free.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT (size 0 too), _DEVICE, _UNSUPPORTED; the driver's own (out of memory:
 *                -1002).
 * Driver:        cuMemAllocManaged, attached globally.
 */
FERRY_API int32_t ferry_managed_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address);

/*
 * Frees what ferry_device_alloc, ferry_device_alloc_pitched or ferry_managed_alloc gave. 0 is allowed.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the device has ended, as cuMemFree does.
 * Ownership:     the memory is gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _ADDRESS if it is neither device nor managed memory; the driver's own.
 * Driver:        cuPointerGetAttributes, cuMemFree.
 */
FERRY_API int32_t ferry_device_free(ferry_instance *instance, uint64_t address);

#define FERRY_HOST_WRITE_COMBINED 1u /* fast to write, very slow to read for the CPU */

/*
 * Allocates `size` bytes of pinned host memory, usable and mapped on every device.
 * `flags`: 0 or FERRY_HOST_WRITE_COMBINED.
 *
 * Thread-safety: safe.
 * Blocking:      yes, for about half a second per GiB.
 * Ownership:     *address is the caller's until ferry_host_free, or the end of the context it was made in: the current
 *                one, else the one that ferry uses for device 0.
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
 * Ownership:     the memory stays the caller's and must stay mapped until ferry_host_unregister; the registration ends
 *                with its context, as for ferry_host_alloc.
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

/* What an array is made of; the values are CUarray_format's. These take 1, 2 or 4 channels. */
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
/* Video, with FERRY_ARRAY_VIDEO: packed ones are copied as they are, planar ones (3 channels) plane by plane, see
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

#define FERRY_ARRAY_LAYERED 0x01u        /* depth counts layers (CUDA_ARRAY3D_LAYERED) */
#define FERRY_ARRAY_SURFACE 0x02u        /* kernels may write it through a surface (CUDA_ARRAY3D_SURFACE_LDST) */
#define FERRY_ARRAY_CUBEMAP 0x04u        /* square, six faces deep; layered: a multiple of six (CUDA_ARRAY3D_CUBEMAP) */
#define FERRY_ARRAY_TEXTURE_GATHER 0x08u /* 2D only (CUDA_ARRAY3D_TEXTURE_GATHER) */
#define FERRY_ARRAY_VIDEO 0x100u         /* of the video formats (CUDA_ARRAY3D_VIDEO_ENCODE_DECODE) */

/* An array's shape. width and height are texels; height 0 is a 1D array, depth 0 a 1D or 2D array. In a copy a layer is
 * a slice, and so is a face of a cube: its number is z. */
typedef struct ferry_array_desc {
    uint32_t struct_size;
    int32_t format;    /* FERRY_FORMAT_* */
    uint32_t channels; /* 1, 2 or 4, or what the format says */
    uint32_t flags;    /* FERRY_ARRAY_* */
    uint64_t width;
    uint64_t height;
    uint64_t depth;
} ferry_array_desc;

/*
 * Creates a CUDA array on `device`: 1D, 2D, 3D, layered or cubemap. A copy takes any other CUarray as well.
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
 * Creates a mipmapped array: `levels` arrays, each of half the width, height and depth of the one before, rounded down
 * and at least 1; layers and faces are not halved. 0, or more than there can be: as many as there can be.
 *
 * Thread-safety: safe.
 * Blocking:      may wait for the device.
 * Ownership:     *mipmapped, a CUmipmappedArray, is the caller's until ferry_mipmapped_array_destroy.
 * Errors:        as ferry_array_create; FERRY_ERROR_UNSUPPORTED.
 * Driver:        cuMipmappedArrayCreate.
 */
FERRY_API int32_t ferry_mipmapped_array_create(ferry_instance *instance, int32_t device, const ferry_array_desc *desc,
                                               uint32_t levels, struct CUmipmappedArray_st **mipmapped);

/*
 * Level number `level` of a mipmapped array, an array like any other to copies; 0 is the largest.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     *array belongs to the mipmapped array and ends with it; it is not to be destroyed by itself.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own (no such level: -1001).
 * Driver:        cuMipmappedArrayGetLevel.
 */
FERRY_API int32_t ferry_mipmapped_array_get_level(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped,
                                                  uint32_t level, struct CUarray_st **array);

/*
 * Destroys a mipmapped array with all its levels. NULL is allowed.
 *
 * Thread-safety: safe.
 * Blocking:      until running work on the device has ended.
 * Ownership:     the arrays are gone.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own.
 * Driver:        cuMipmappedArrayDestroy.
 */
FERRY_API int32_t ferry_mipmapped_array_destroy(ferry_instance *instance, struct CUmipmappedArray_st *mipmapped);

/*
 * Plane number `plane` of an array in a planar video format, an array like any other to copies: brightness first, then
 * colour, which is smaller where the format samples it less often.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     *plane_array belongs to `array` and ends with it; it is not to be destroyed by itself.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT, _UNSUPPORTED; the driver's own (no such plane, no planar format: -1001).
 * Driver:        cuArrayGetPlane.
 */
FERRY_API int32_t ferry_array_get_plane(ferry_instance *instance, struct CUarray_st *array, uint32_t plane,
                                        struct CUarray_st **plane_array);

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
#define FERRY_MEMORY_ARRAY 4 /* in ferry_explanation only */

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
 * row_pitch     bytes from one row to the next, at least x + width; 0: rows lie tight, width bytes apart, and then x
 *               must be 0 unless the copy is one row of the first slice. Not read for arrays.
 * slice_height  rows from one slice to the next, at least y + height: the allocation's height, not the copy's; 0:
 *               slices lie tight, height rows apart, and then y must be 0 unless the copy is in the first slice. Not
 *               read for arrays.
 * device        not read for ANY and HOST. Managed memory may be described as HOST, as DEVICE on any device, or as ANY.
 * array         rows and bytes of block-compressed arrays are those of blocks of 4 x 4 texels. A planar array itself
 *               takes no copy (the driver's -1001), its planes do.
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
 * One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0 count as 1 (CUDA's
 * own calls copy nothing then). With width 0 nothing is copied, and that is a success, once kinds, devices, flags and
 * reserved fields are right.
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
 * and on streams that synchronise with it; work on non-blocking streams is the caller's to order. To wait for a copy on
 * another stream: ferry_copy_async and ferry_stream_synchronize.
 * The context is the calling thread's current one, else that of the destination's device, else of the source's, else of
 * device 0.
 *
 * Thread-safety: safe.
 * Blocking:      until the copy is complete.
 * Ownership:     `copy` is read before return.
 * Errors:        FERRY_ERROR_KIND, _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP, _ARRAY_FORMAT,
 *                _FLAGS, _RESERVED name the field in `error`, and nothing was copied; _INVALID_ARGUMENT for NULL;
 *                _UNSUPPORTED from one layer or face to another of one array, which the driver gets wrong; the
 *                driver's own, which may also report earlier asynchronous work that failed.
 * Driver:        cuMemcpy3D or, where an end is on another device than the context, cuMemcpy3DPeer; then
 *                cuStreamSynchronize where those return early (device to device, pageable host to device).
 */
FERRY_API int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, ferry_error_info *error);

/*
 * Enqueues a copy on `stream`: it starts after the work before it there, and is complete for the work after it.
 * Any stream of the caller's will do, a CUstream or cudaStream_t. NULL and FERRY_STREAM_LEGACY are the legacy default
 * stream, FERRY_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for
 * those three it is found as for ferry_copy.
 *
 * Thread-safety: safe.
 * Blocking:      does not wait for the GPU, except in the driver's own copies with pageable memory, and from host
 *                memory to host memory: they wait for earlier work on the stream, and until a pageable source has been
 *                read or, to a host destination, until the copy is complete. ferry_explain_async tells.
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

/* ---------------------------------------------------------------------------------------------------------------
 * Explanations
 * ------------------------------------------------------------------------------------------------------------ */

/* How a copy travels. */
#define FERRY_ROUTE_NONE 0   /* not at all: its width is 0 */
#define FERRY_ROUTE_DRIVER 1 /* by one call of the driver's own */

/* What the caller waits for. */
#define FERRY_BLOCKS_NO 0           /* nothing: the call enqueues and returns */
#define FERRY_BLOCKS_UNTIL_STAGED 1 /* until pageable source memory has been read, and for earlier work on the stream */
#define FERRY_BLOCKS_UNTIL_DONE 2   /* until the copy is complete */

/* What a copy would do. */
typedef struct ferry_explanation {
    uint32_t struct_size;
    int32_t route;              /* FERRY_ROUTE_* */
    int32_t blocks;             /* FERRY_BLOCKS_* */
    int32_t synchronises;       /* 1: the driver's call returns before the copy is complete, so ferry then waits */
    char driver_call[32];       /* "cuMemcpy3DAsync" and its like; empty for FERRY_ROUTE_NONE */
    int32_t context_device;     /* the device of the context that the copy runs in; -1 for FERRY_ROUTE_NONE */
    int32_t source_memory;      /* FERRY_MEMORY_*; 0 says nothing for FERRY_ROUTE_NONE */
    int32_t source_device;      /* where device or array memory lies; -1 otherwise */
    int32_t destination_memory; /* FERRY_MEMORY_* */
    int32_t destination_device;
    uint32_t calls;
    uint64_t width; /* the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded */
    uint64_t height;
    uint64_t depth;
} ferry_explanation;

/*
 * What ferry_copy would do with `copy`, without doing it. Fills `explanation` up to its struct_size. Whether a copy
 * between two devices takes the link between them is no part of it: that hangs on peer access.
 *
 * Thread-safety: safe.
 * Blocking:      never, but on first need as ferry_context_retain_primary.
 * Ownership:     the caller's struct.
 * Errors:        as ferry_copy, and _ABI_MISMATCH.
 * Driver:        the look-ups of ferry_copy, and cuPointerGetAttributes for each address.
 */
FERRY_API int32_t ferry_explain(ferry_instance *instance, const ferry_copy_desc *copy, ferry_explanation *explanation,
                                ferry_error_info *error);

/*
 * What ferry_copy_async would do, likewise.
 *
 * Thread-safety: safe.
 * Blocking:      as ferry_explain.
 * Ownership:     as ferry_explain.
 * Errors:        as ferry_copy_async, and _ABI_MISMATCH.
 * Driver:        as ferry_explain.
 */
FERRY_API int32_t ferry_explain_async(ferry_instance *instance, const ferry_copy_desc *copy, struct CUstream_st *stream,
                                      ferry_explanation *explanation, ferry_error_info *error);

/*
 * Writes one readable line about `explanation` to `buffer`, such as "driver route: cuMemcpy3DAsync, pinned to device 0,
 * 4096 B x 3 rows x 1 slices; does not block", cut to `size` bytes with its ending zero. Returns the length of the
 * whole line without the zero.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's buffer; it may be NULL when size is 0.
 * Errors:        none; returns 0 for a NULL explanation.
 * Driver:        none.
 */
FERRY_API uint64_t ferry_explanation_format(const ferry_explanation *explanation, char *buffer, uint64_t size);

/* ---------------------------------------------------------------------------------------------------------------
 * Fills
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * One fill: a pattern of 1, 2 or 4 bytes, in memory order, repeated over a box of device, managed or pinned host
 * memory. The address with its origin, and the row pitch and the width, must be multiples of the pattern's size; a
 * pitch only where there are rows, but never below x + width if it is given. Height 0 and depth 0 count as 1. With
 * width 0 nothing is filled, and that is a success, once kind,
 * device, pattern_size, flags and reserved fields are right.
 */
typedef struct ferry_fill_desc {
    ferry_place destination;
    uint64_t width; /* bytes */
    uint64_t height;
    uint64_t depth;        /* of slices that lie tight: slice_height 0 or `height` */
    uint8_t pattern[16];   /* its first pattern_size bytes are read */
    uint32_t pattern_size; /* 1, 2 or 4; 8 and 16 are for later: FERRY_ERROR_UNSUPPORTED */
    uint32_t flags;        /* must be zero */
    uint64_t reserved[6];  /* must be zero */
} ferry_fill_desc;

/*
 * Fills a descriptor from a place, an extent and `pattern_size` bytes of pattern (at most 16 are taken). A NULL place
 * leaves the destination all zero, a NULL pattern means bytes of zero.
 *
 * Thread-safety: safe.
 * Blocking:      never.
 * Ownership:     the caller's structs; the place may be the one inside *fill.
 * Errors:        none here: ferry_fill checks. A NULL fill is ignored.
 * Driver:        none.
 */
FERRY_API void ferry_fill_desc_init(ferry_fill_desc *fill, const ferry_place *destination, uint64_t width,
                                    uint64_t height, uint64_t depth, const void *pattern, uint32_t pattern_size);

/*
 * Fills, and returns when the bytes are there. Ordered as ferry_copy is; the context is the current one if it is of the
 * memory's device, else the one that ferry uses for that device; for pinned and managed memory the current one, else
 * device 0's.
 *
 * Thread-safety: safe.
 * Blocking:      until the fill is complete.
 * Ownership:     `fill` is read before return.
 * Errors:        FERRY_ERROR_KIND (pageable host memory too), _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS,
 *                _ALIGNMENT, _FLAGS, _RESERVED name the field in `error`, and nothing was filled; _INVALID_ARGUMENT for
 *                NULL and for a pattern_size that is no power of two up to 16; _UNSUPPORTED for patterns of 8 and 16
 *                bytes, for slices apart and for arrays; the driver's own.
 * Driver:        cuPointerGetAttributes unless the place states a device; cuMemsetD8Async, D16 or D32, or
 *                cuMemsetD2D8Async, D2D16 or D2D32, on the legacy stream; then cuStreamSynchronize.
 */
FERRY_API int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, ferry_error_info *error);

/*
 * Enqueues a fill on `stream`, as ferry_copy_async does a copy. The stream must be on the device of the memory, or on
 * one with peer access to it; for pinned and managed memory any stream will do. The NULL, legacy and per-thread streams
 * are those of the context found as for ferry_fill.
 *
 * Thread-safety: safe.
 * Blocking:      does not wait for the GPU.
 * Ownership:     `fill` is read before return; the memory must live until the stream has passed the fill.
 * Errors:        as ferry_fill; nothing was enqueued. FERRY_ERROR_DEVICE also for a stream that does not reach the
 *                memory.
 * Driver:        as ferry_fill, without the wait.
 */
FERRY_API int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill, struct CUstream_st *stream,
                                   ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif
