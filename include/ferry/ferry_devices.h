/*
 * The devices of ferry: what an instance found, contexts, peer access, host links, staging buffers and profiles.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_DEVICES_H
#define FERRY_FERRY_DEVICES_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Report
 * ------------------------------------------------------------------------------------------------------------ */

/* What ferry_open found. */
typedef struct ferry_report {
    uint32_t struct_size;
    int32_t driver;         /* FERRY_DRIVER_CUDA or FERRY_DRIVER_SOFTWARE: the driver in use */
    int32_t driver_version; /* the CUDA version it supports: 1000 * major + 10 * minor */
    int32_t device_count;
    int32_t fallback_reason; /* a status: of ferry_open with CUDA, which is why AUTO took the software driver; or 0 */
    uint32_t
        missing_count; /* optional entry points that this driver lacks; see ferry_instance_get_missing_entry_point */
    int32_t checks;    /* FERRY_CHECKS_* in force */
    uint32_t failed_peers;    /* ordered pairs of devices between which a probe has lost data so far */
    int32_t kernels;          /* FERRY_KERNELS_* in force; NONE also if the driver refused them or cannot run them */
    int32_t kernels_loaded;   /* 1: the driver has loaded them */
    uint32_t kernel_contexts; /* contexts in which they are loaded; 16 at most are counted */
    /* FERRY_STAGING_* in force; NONE also if kernels are. If the driver has refused them only when they were loaded,
       pageable memory is still staged by copies on the stream, as with FERRY_COPY_NO_KERNELS. */
    int32_t staging;
    uint32_t staging_threads;     /* the maximum that copies of a device keep busy, except copies of files; see
                                     ferry_staging_info for all */
    int32_t uses_program_threads; /* 1: those are the program's, by ferry_options.submit */
    uint64_t staging_bytes;       /* the intended size of each staging buffer */
} ferry_report;

/* Fills `report`. The values are from the time of ferry_open, except for peers, kernels and
 * staging, which are current. */
FERRY_API int32_t ferry_instance_get_report(ferry_instance *instance, ferry_report *report, ferry_error_info *error);

/*
 * Returns the name of the index-th optional entry point that the driver lacks, such as "cuLaunchHostFunc".
 *
 * NULL:          returned past the last.
 */
FERRY_API const char *ferry_instance_get_missing_entry_point(ferry_instance *instance, uint32_t index);

/*
 * Returns this instance's driver entry point: for the program's own calls to the same driver, software or not.
 * `version` is as for cuGetProcAddress, such as 12000. The function's type is PFN_<name>_v<version> in cudaTypedefs.h.
 *
 * NULL:          returned if the driver has no such entry point.
 * Thread-safety: safe if the program's own get_proc is.
 * Blocking:      driver_lock.
 * Ownership:     valid until ferry_close.
 */
FERRY_API void *ferry_instance_get_proc(ferry_instance *instance, const char *name, int32_t version);

/* ---------------------------------------------------------------------------------------------------------------
 * Devices
 * ------------------------------------------------------------------------------------------------------------ */

/* What the number of copy engines lets a device do. */
#define FERRY_COPY_OVERLAP_NONE 0          /* no engine: copies and kernels take turns */
#define FERRY_COPY_OVERLAP_ONE_WAY 1       /* one engine: a copy in one direction at a time runs beside kernels */
#define FERRY_COPY_OVERLAP_BOTH_WAYS 2     /* two: one copy in each direction runs beside kernels */
#define FERRY_COPY_OVERLAP_BOTH_AND_MORE 3 /* more: also copies to peers or within the device beside those */

/* The facts of one device. */
typedef struct ferry_device_info {
    uint32_t struct_size;
    int32_t device; /* its ordinal */
    char name[128]; /* UTF-8, ends with zero */
    uint8_t uuid[16];
    char pci_address[32];  /* domain:bus:device.function, such as "0000:3B:00.0" */
    uint64_t total_memory; /* bytes */
    uint64_t max_pitch;    /* bytes: the largest row pitch a copy may have */
    int32_t is_software;   /* 1: of the software driver */
    int32_t compute_major;
    int32_t compute_minor;
    int32_t sm_count;
    int32_t copy_engine_count;
    int32_t overlap;                              /* FERRY_COPY_OVERLAP_*: what that count means */
    int32_t unified_addressing;                   /* 1: one address space with the host: kind ANY works */
    int32_t pageable_access;                      /* 1: kernels may read pageable host memory */
    int32_t pageable_uses_host_page_tables;       /* 1: they do so by the host's page tables */
    int32_t can_map_host_memory;                  /* 1: pinned memory can be mapped into the device */
    int32_t host_register;                        /* 1: ferry_host_register works */
    int32_t host_register_read_only;              /* 1: FERRY_REGISTER_READ_ONLY works */
    int32_t registered_address_is_device_address; /* 1: registered memory has one address for host and device */
    int32_t managed_memory;                       /* 1: ferry_managed_alloc works */
    int32_t concurrent_managed_access;            /* 1: the host may use managed memory while the device works */
    int32_t memory_pools;                         /* 1: stream-ordered allocation works */
    uint32_t pool_handle_types;                   /* FERRY_HANDLE_* */
    int32_t numa_node;                            /* of the nearest host memory; -1: the driver does not report it */
    int32_t integrated;                           /* 1: shares the host's physical memory */
    int32_t texture_pitch_alignment;              /* bytes */
    int32_t host_memory_pools;                    /* 1: pools of FERRY_LOCATION_HOST work */
    int32_t host_numa_memory_pools;               /* 1: pools of FERRY_LOCATION_HOST_NUMA work */
    int32_t ipc_events;                           /* 1: events can be shared between processes */
    uint32_t reserved;
    uint8_t luid[8];         /* Windows: of the adapter; zeros elsewhere */
    uint32_t luid_node_mask; /* Windows: the nodes of the adapter that are the device; 0: other systems */
    uint32_t reserved1;
} ferry_device_info;

/* Fills `info` with the facts of device number `device`. They were queried at ferry_open. */
FERRY_API int32_t ferry_device_get_info(ferry_instance *instance, int32_t device, ferry_device_info *info,
                                        ferry_error_info *error);

/*
 * Stores the number of the device that another API knows by a UUID (VkPhysicalDeviceIDProperties.deviceUUID) or by a
 * LUID (ID3D12Device::GetAdapterLuid). Each API numbers the devices in its own way. One of the two may be NULL; the
 * UUID counts if both are given. Linked adapters share a LUID: this is the first of them, and
 * ferry_device_info.luid_node_mask distinguishes them.
 *
 * NULL:          `uuid`, `luid`.
 * Values:        `uuid`: 16 bytes; `luid`: 8 bytes; `device`: a device; -1: no such device.
 * Errors:        FERRY_ERROR_DEVICE if this instance has no such device.
 */
FERRY_API int32_t ferry_device_find(ferry_instance *instance, const uint8_t *uuid, const uint8_t *luid, int32_t *device,
                                    ferry_error_info *error);

/* How much memory a device has, and how much of it is available. */
typedef struct ferry_device_memory_info {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t total;       /* bytes, as cuMemGetInfo reports them */
    uint64_t free;        /* bytes that no process has allocated; other processes may take them at any time */
    uint64_t pool_unused; /* bytes that the default pool and the current pool keep without an allocation in them */
    uint64_t deferred;    /* bytes of this device that deferred frees keep: see ferry_deferred_info */
} ferry_device_memory_info;

/*
 * Fills `info` with the current amounts. `pool_unused` and `deferred` are not part of `free`. ferry_pool_trim and
 * ferry_deferred_trim return them to the driver; ferry_pool_trim returns only whole blocks of the pool. The first call
 * for a device may create its primary context, which itself takes some of the memory.
 *
 * Thread-safety: safe; the numbers are read one after the other.
 * Blocking:      first_use. The first call for a device retains its primary context.
 */
FERRY_API int32_t ferry_device_get_memory(ferry_instance *instance, int32_t device, ferry_device_memory_info *info,
                                          ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Counters
 * ------------------------------------------------------------------------------------------------------------ */

/* What one route has copied. */
typedef struct ferry_route_counters {
    uint64_t copies;    /* copies, pieces and fills that were enqueued or made. Each part of a split copy counts */
    uint64_t bytes;     /* of these */
    uint64_t waited_ns; /* the time of single copies that were synchronous or had pageable memory, and of synchronous
                           fills, in their calls. Batches do not count */
} ferry_route_counters;

/* What an instance has copied and filled in contexts of a device, since it was opened. */
typedef struct ferry_device_counters {
    uint32_t struct_size;
    uint32_t reserved;           /* 0 */
    ferry_route_counters driver; /* of the route DRIVER, and broadcasts */
    ferry_route_counters kernel;
    ferry_route_counters staged;
    ferry_route_counters buffered;
    ferry_route_counters relayed;
    ferry_route_counters multilink;
} ferry_device_counters;

/*
 * Fills `counters`. The numbers only grow, so a program subtracts earlier ones. Work in a graph counts once, when it is
 * captured. Counting is always on: it takes some nanoseconds for each copy.
 *
 * Thread-safety: safe from any thread. Calls that run at the same time may be counted in part.
 */
FERRY_API int32_t ferry_device_get_counters(ferry_instance *instance, int32_t device, ferry_device_counters *counters,
                                            ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Contexts
 *
 * ferry needs a context for each device it works on: the one that the program adopted for the device, else the primary
 * context, which ferry retains on first need until ferry_close. Copies need none of the calls below.
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Retains the device's primary context for the caller. Each call needs one ferry_context_release_primary.
 *
 * Blocking:      first_use. The first retain in the process creates the context, which takes up to hundreds of
 *                milliseconds.
 * Ownership:     one reference to *context is the caller's until ferry_context_release_primary.
 */
FERRY_API int32_t ferry_context_retain_primary(ferry_instance *instance, int32_t device, struct CUctx_st **context,
                                               ferry_error_info *error);

/*
 * Releases one reference to the device's primary context, which the program retained through this instance.
 *
 * Blocking:      device, if this was the last reference in the process: the driver waits for the work of the context.
 *                Otherwise driver_lock.
 * Errors:        FERRY_ERROR_NO_CONTEXT if no such reference is left.
 */
FERRY_API int32_t ferry_context_release_primary(ferry_instance *instance, int32_t device, ferry_error_info *error);

/*
 * Creates a context on `device` that the caller owns. Unlike with cuCtxCreate, the context does not become current.
 *
 * Values:        `flags`: CUctx_flags; 0: the driver's default.
 * Blocking:      driver_lock. Each call creates a context, which takes up to hundreds of milliseconds.
 * Ownership:     *context is the caller's until ferry_context_destroy.
 */
FERRY_API int32_t ferry_context_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                       struct CUctx_st **context, ferry_error_info *error);

/*
 * Destroys a context made by ferry_context_create, with everything in it. If it was adopted, ferry returns to the
 * device's primary context. No thread may have the context current, and no other call may be using it. First calls
 * ferry_options.trace for the calls in this context that are not reported as done yet.
 *
 * Blocking:      device. The call waits until the context's work has ended, and for kernels of helpers
 *                (ferry_multilink_set) that come late.
 */
FERRY_API int32_t ferry_context_destroy(ferry_instance *instance, struct CUctx_st *context, ferry_error_info *error);

/*
 * Makes ferry use the program's `context` for the context's device instead of the primary one, from the next call on.
 * `device` is read only if `context` is NULL: it then returns to its primary context. The staging buffer stays in the
 * primary context in any case; the first staged copy retains that.
 *
 * NULL:          `context`.
 * Thread-safety: safe; calls already running on other threads may still use the former context.
 * Blocking:      driver_lock.
 * Ownership:     `context` must live until another context is adopted or the instance is closed. It stays the caller's.
 * Errors:        the driver's own for an invalid context.
 */
FERRY_API int32_t ferry_context_adopt(ferry_instance *instance, int32_t device, struct CUctx_st *context,
                                      ferry_error_info *error);

/*
 * Makes `context` current on the calling thread, on top of its current one; `device` is then not read. NULL: pushes
 * the context that ferry uses for `device`.
 *
 * NULL:          `context`.
 * Thread-safety: safe; affects only the calling thread.
 * Blocking:      first_use. If `context` is NULL, the first call for a device retains its primary context.
 * Ownership:     the change lasts until ferry_context_pop.
 */
FERRY_API int32_t ferry_context_push(ferry_instance *instance, int32_t device, struct CUctx_st *context,
                                     ferry_error_info *error);

/*
 * Pops the calling thread's current context, and stores it in *context unless `context` is NULL.
 *
 * NULL:          `context`.
 * Thread-safety: safe; affects only the calling thread.
 * Ownership:     *context belongs to its creator; its work continues.
 * Errors:        FERRY_ERROR_NO_CONTEXT if there was none.
 */
FERRY_API int32_t ferry_context_pop(ferry_instance *instance, struct CUctx_st **context, ferry_error_info *error);

/*
 * Stores the calling thread's current context in *context; NULL if there is none.
 *
 * Ownership:     *context belongs to its creator.
 */
FERRY_API int32_t ferry_context_get_current(ferry_instance *instance, struct CUctx_st **context,
                                            ferry_error_info *error);

/*
 * Waits until all work of `context` has ended; `device` is then not read. NULL: waits for the context that ferry uses
 * for `device`, which need not be the thread's current one.
 *
 * NULL:          `context`.
 * Blocking:      device. The call returns when the work of the context has ended. Calls for one device take turns, also
 *                with ferry_pool_destroy and other calls that wait for a context: CUDA 13.0 can deadlock when two
 *                threads do so at the same time.
 * Errors:        late errors of earlier work.
 */
FERRY_API int32_t ferry_context_synchronize(ferry_instance *instance, int32_t device, struct CUctx_st *context,
                                            ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Peers
 *
 * A copy between two devices needs none of this. With peer access the bytes take the link between the devices instead
 * of a detour through the host. Access has a direction: `device` reaches the memory of `peer`.
 * ------------------------------------------------------------------------------------------------------------ */

/* The result of sending data through a pair of devices. */
#define FERRY_PROBE_NOT_RUN 0
#define FERRY_PROBE_PASSED 1
#define FERRY_PROBE_FAILED 2 /* the driver reports access, but bytes do not arrive: the pair counts as having none */

/* One ordered pair of devices. */
typedef struct ferry_peer_info {
    uint32_t struct_size;
    int32_t device;
    int32_t peer;
    int32_t can_access; /* 1: `device` can reach the memory of `peer`: the driver reports access, and no probe failed */
    int32_t driver_can_access; /* 1: the driver reports access */
    int32_t probe;             /* FERRY_PROBE_*: in this instance */
    int32_t performance_rank;  /* the driver's ranking of the links; 0: the best; -1: not reported */
    int32_t native_atomics;    /* 1: atomic operations work across the link; 0: they do not, or it is not reported */
    int32_t array_access;      /* 1: arrays can be reached too; 0: they cannot, or it is not reported */
    uint32_t reserved;
    /* From ferry_peer_calibrate in this instance, or from a profile that was loaded; 0: not measured. */
    uint32_t direct_mb_per_s;    /* MB/s of copies from `device` to `peer` with access */
    uint32_t bounce_mb_per_s;    /* likewise, by the driver without access */
    uint32_t relay_mb_per_s;     /* likewise, by FERRY_ROUTE_RELAYED */
    uint32_t relay_fixed_ns;     /* the time of FERRY_ROUTE_RELAYED without the bytes */
    uint32_t direct_fixed_ns;    /* the time of copies with access without the bytes */
    uint32_t link_to_mb_per_s;   /* MB/s from pinned memory to `peer` by `device` as a helper: FERRY_COPY_MULTILINK */
    uint32_t link_from_mb_per_s; /* likewise, from `peer` to pinned memory */
} ferry_peer_info;

/*
 * Fills `info` for access by `device` to the memory of `peer`. Runs no probe.
 *
 * Blocking:      driver_lock.
 * Errors:        FERRY_ERROR_DEVICE also for a device and itself.
 */
FERRY_API int32_t ferry_peer_get_info(ferry_instance *instance, int32_t device, int32_t peer, ferry_peer_info *info,
                                      ferry_error_info *error);

/*
 * Tests whether bytes arrive when `device` accesses the memory of `peer`: some machines report peer access and move
 * nothing. Reads 64 KiB from the peer, writes as much to it and compares, in a context made for this on `device`. The
 * result says nothing about `peer` accessing `device`. The test runs once per ordered pair and instance; later calls
 * return the first result. Access between other contexts is unchanged.
 *
 * Blocking:      device. The first call for a pair of devices creates contexts, as ferry_context_create and
 *                ferry_context_retain_primary, and frees memory, as ferry_device_free. Later calls for the pair are
 *                driver_lock.
 * Errors:        FERRY_ERROR_PEER_ACCESS: the driver reports no access; _DATA_LOST: the data was lost;
 *                _DEVICE also for a device and itself; _OUT_OF_MEMORY. After an error of the driver's own no result is
 *                kept.
 */
FERRY_API int32_t ferry_peer_probe(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *error);

/*
 * Gives `device` access to the memory of `peer`, between the contexts that ferry uses for the two. The first time, test
 * data is then sent between these contexts, and the access is taken back if the data is lost. Access belongs to that
 * pair of contexts, not to the instance, and is not counted: it lasts until any code in the process disables it or one
 * of the contexts ends. ferry_close leaves it. After ferry_context_adopt call again. Access that is already enabled is
 * a success.
 *
 * The driver's copies between two devices use the link if either device has access to the memory of the other. Kernels
 * require that the device that runs the copy has access to the memory of the other device. The stream decides which
 * device runs the copy. Without a stream, it is the device of the thread's current context, or else of the destination:
 * for a synchronous copy from device 0 to device 1, `device` is 1 and `peer` is 0. To permit all routes in both
 * directions, enable both pairs.
 *
 * Blocking:      device, as ferry_peer_probe. Also waits while the driver maps the peer's memory.
 * Ownership:     the access lasts until ferry_peer_disable.
 * Errors:        as ferry_peer_probe.
 */
FERRY_API int32_t ferry_peer_enable(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *error);

/*
 * Undoes ferry_peer_enable. Access that is not enabled is a success. Later copies between the two still work; graphs
 * and prepared batches made while there was access may not be launched any more.
 *
 * Thread-safety: safe. Copies between the two that other threads enqueue meanwhile may fail, and their context may be
 *                lost.
 * Blocking:      device. The call waits until the work of both contexts has ended, which the driver's own call does not
 *                wait for. Breaks a capture in either context.
 * Errors:        FERRY_ERROR_DEVICE also for a device and itself. After an error access is as before.
 */
FERRY_API int32_t ferry_peer_disable(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *error);

/*
 * Runs ferry_peer_probe, then measures copies from `device` to `peer` in each way that serves them: with access, if the
 * probe passes; by the driver without access; and by FERRY_ROUTE_RELAYED. With access also copies between pinned memory
 * and `peer` that `device` makes over its own link, as a helper of FERRY_COPY_MULTILINK. ferry_peer_get_info reports
 * the rates. With them ferry plans copies from `device` to `peer` until this pair is calibrated again, a profile that
 * has the pair is loaded, or ferry_close. ferry_profile_save keeps them. Access between other contexts is unchanged.
 * With FERRY_KERNELS_NONE the links are not measured.
 *
 * Thread-safety: safe; two calibrations at the same time on one machine disturb each other.
 * Blocking:      device. The call takes two seconds at most on GPUs that are otherwise idle.
 * Ownership:     takes up to 64 MiB of each device's memory, at most an eighth of what is free, or 8 MiB if that is
 *                more; 40 MiB of pinned memory; and a context on each device, with streams and events. All of it is
 *                released. The rates are the instance's.
 * Errors:        FERRY_ERROR_DEVICE also for a device and itself; _OUT_OF_MEMORY; _UNSUPPORTED for a driver without
 *                streams or events; late errors of earlier work. No access is no error. After an error the rates are
 *                unchanged.
 */
FERRY_API int32_t ferry_peer_calibrate(ferry_instance *instance, int32_t device, int32_t peer, ferry_error_info *error);

/* The devices whose host links copies of another device may take. */
typedef struct ferry_multilink_options {
    uint32_t struct_size;
    /* The maximum number of SMs that a copy of pinned memory may use on each helper. 0: as many as are useful, which is
       also the limit: 24 for copies to the device, 16 for copies to the host. For pageable memory, max_sms of the
       copy's options counts on each device. */
    uint32_t max_sms;
    const int32_t *helpers; /* `helper_count` elements: devices, read during the call */
    uint32_t helper_count;  /* at most 29; 0: as without options */
    uint32_t reserved;      /* 0 */
} ferry_multilink_options;

/*
 * Lets copies with FERRY_COPY_MULTILINK between host memory and `device` take the host links of other devices: each
 * helper runs a kernel on one of ferry's streams. The kernel moves a part of the bytes and accesses the memory of
 * `device` as a peer. Such a copy takes SMs and link of its helpers as long as it runs. The devices claim chunks, so a
 * helper that is busy does less, and one whose kernel does not start delays nothing. `options` NULL: no helpers, as at
 * first. Replaces the helpers of earlier calls; copies in flight keep theirs. Also starts staging threads for the
 * helpers and enlarges the staging buffer of `device`, for pageable memory, which takes at most four links. With
 * ferry_options.submit threads and buffer stay as they are.
 *
 * Each helper gets access to the memory of `device`, as by ferry_peer_enable, which it keeps. Only memory to which all
 * contexts that ferry uses for these devices have access gains by it. After ferry_context_adopt for `device` other
 * helpers cannot be set while the instance is open.
 *
 * If the context of a helper dies while it holds a chunk, the copy fails: its stream and context report
 * CUDA_ERROR_LAUNCH_FAILED some seconds later. A helper's kernel may start after the copy has ended: end the context
 * of `device` by ferry_context_destroy, which waits for that, not by the driver's call.
 *
 * NULL:          `options`.
 * Blocking:      device, as ferry_peer_enable. The call also loads kernels and allocates memory.
 * Errors:        FERRY_ERROR_DEVICE: `device` with FERRY_FIELD_DEVICE; a helper that does not exist, is `device` itself
 *                or comes twice with FERRY_FIELD_HELPERS, its number as value and its place in `index`.
 *                _PEER_ACCESS, _DATA_LOST with FERRY_FIELD_HELPERS: a helper has no access, lost data, or atomics do
 *                not work over its link. _UNSUPPORTED without kernels; _LIMIT for too many helpers, or with the
 *                field of a budget (ferry_options.max_pinned_bytes, max_device_bytes); _OUT_OF_MEMORY;
 *                _IN_USE after ferry_context_adopt. After an error the helpers are as before, but those ahead of a bad
 *                one keep their access.
 */
FERRY_API int32_t ferry_multilink_set(ferry_instance *instance, int32_t device, const ferry_multilink_options *options,
                                      ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Staging
 *
 * Copies between pageable memory and a device (FERRY_ROUTE_STAGED) use a kernel in their stream, or copies on the
 * stream in its place. These exchange data with CPU threads through pinned staging buffers: see staging in
 * ferry_options, and docs/staging.md.
 * ------------------------------------------------------------------------------------------------------------ */

/* The resources for staged copies, and the number of copies in flight: enqueued and not ended; in a graph, while it
 * runs. */
typedef struct ferry_staging_info {
    uint32_t struct_size;
    uint32_t threads;      /* ferry's own; 0: staging was neither prepared nor used. With submit: those it started */
    uint32_t busy_threads; /* moving bytes now, including helping callers and the program's threads */
    uint32_t copies_in_flight;
    uint64_t staging_bytes;   /* pinned for the staging buffers of all devices */
    uint64_t bytes_in_flight; /* of copies in flight: bytes that have not arrived yet */
    uint64_t failed_files;    /* count of calls with copies of files that failed later, see ferry_file.h */
} ferry_staging_info;

/*
 * Fills `info`.
 *
 * Blocking:      none. The time grows with the number of copies in flight.
 */
FERRY_API int32_t ferry_staging_get_info(ferry_instance *instance, ferry_staging_info *info, ferry_error_info *error);

/* The memory and the threads that an instance uses for itself, and how often ferry_options.max_pinned_bytes,
 * max_device_bytes and max_threads have refused a part or granted less than wanted. Memory that a call allocates and
 * frees again (ferry_device_calibrate, probes of peer access) does not count. */
typedef struct ferry_usage {
    uint32_t struct_size;
    uint32_t threads;           /* that the instance has started and whose work is not complete */
    uint64_t pinned_bytes;      /* the sum of the next four */
    uint64_t staging_bytes;     /* staging buffers of all devices, and the records of staged copies */
    uint64_t table_bytes;       /* tables of batches */
    uint64_t read_buffer_bytes; /* of the route BUFFERED */
    uint64_t link_bytes;        /* slots of the route RELAYED, and records of MULTILINK */
    uint64_t device_bytes;      /* of all devices: as for ferry_options.max_device_bytes, and memory kept for buffers */
    uint64_t deferred_bytes;    /* kept by deferred frees: ferry_deferred_info.bytes of FERRY_DEVICE_UNKNOWN */
    uint64_t pinned_refused;
    uint64_t device_refused;
    uint64_t threads_refused;
} ferry_usage;

/*
 * Fills `usage`. Each number is current, but other threads may change one while the next is read. The memory kept for
 * buffers is the amount after the last allocation of a buffer, or after ferry_staging_trim.
 *
 * Blocking:      none. The time grows with the number of deferred frees.
 */
FERRY_API int32_t ferry_instance_get_usage(ferry_instance *instance, ferry_usage *usage, ferry_error_info *error);

/*
 * Creates what the first staged copy of `device` would otherwise create and wait for: ferry's kernels in the device's
 * context (the current one if it belongs to the device), threads, the pinned staging buffer, and 4 MiB of pinned memory
 * for the route BUFFERED. Whatever exists already stays. After this, no staged copy in that context waits for them. May
 * be called on any thread, also beside copies.
 *
 * Blocking:      device. The first call for a device waits until running work in the context has ended, and takes some
 *                milliseconds. Later calls are driver_lock.
 * Ownership:     the instance's; ferry_staging_trim releases the memory.
 * Errors:        FERRY_ERROR_OUT_OF_MEMORY; _UNSUPPORTED also if the options exclude kernels or staging, or the driver
 *                takes no kernels; _LIMIT with FERRY_FIELD_MAX_PINNED_BYTES if no staging buffer fits the budget.
 */
FERRY_API int32_t ferry_staging_prepare(ferry_instance *instance, int32_t device, ferry_error_info *error);

/*
 * Releases the staging buffers: all of their memory if no copy is in flight and no graph holds one, else the part that
 * no copy or graph needs. Also releases the slots of relayed copies that are complete, and free blocks of the route
 * BUFFERED and of the tables of batches, and the device memory that is kept for buffers, once a thread has waited for
 * the streams that used it. The next copy allocates it again. Threads stay.
 *
 * Blocking:      device. The call waits until running work on the devices has ended, as ferry_host_free.
 * Errors:        the driver's own: memory that it does not take back stays in use.
 */
FERRY_API int32_t ferry_staging_trim(ferry_instance *instance, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Profiles
 *
 * ferry chooses a route by predicted times from a profile of the device: the measured times of each kind of copy. A
 * measured profile is built in for Hopper devices and for the software driver, and a cautious guess for all others.
 * Another can be measured on this machine and kept as text for the program's next start. A profile changes the route
 * and the speed of a copy, never the bytes that arrive.
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Measures `device`. ferry plans with the result until the next calibration or ferry_profile_load, or until
 * ferry_close. Copies between devices are not measured: see ferry_peer_calibrate, whose rates stay. Other work on the
 * device or on its link distorts the numbers: calibrate when a machine is set up or a program starts. ferry never
 * calibrates by itself. With FERRY_KERNELS_NONE no kernels are measured.
 *
 * Thread-safety: safe; two calibrations at the same time on one machine disturb each other.
 * Blocking:      device. The call takes two seconds at most on a GPU that is otherwise idle.
 * Ownership:     takes up to 512 MiB of the device's memory, at most a quarter of what is free, and half as much, at
 *                most 64 MiB, for an array; 64 MiB of pinned and 32 MiB of other host memory; and a stream. All of it
 *                is released. Anything that ferry_staging_prepare would create stays, unless the options exclude
 *                staging. The profile is the instance's.
 * Errors:        FERRY_ERROR_OUT_OF_MEMORY; late errors of earlier work. After an error the profile is unchanged.
 */
FERRY_API int32_t ferry_device_calibrate(ferry_instance *instance, int32_t device, ferry_error_info *error);

/*
 * Writes the profile of `device`, also the built-in one, to `buffer`: text of a few kilobytes in ASCII, lines ended by
 * '\n', with an ending zero. `needed`, unless NULL, receives its size in bytes with that zero, also if the text does not
 * fit; to ask only for the size, pass a NULL `buffer` of size 0. A buffer that is too small is an error
 * (FERRY_ERROR_INVALID_ARGUMENT), and nothing is written to it.
 *
 * The text can be loaded on any device of the same name, number of SMs and compute capability with the same driver
 * version, so also on the equal devices of one machine. It has a line for each pair that was measured and begins at such
 * a device, with the PCI addresses of both. ferry does not detect that a device has moved to another link: calibrate it
 * again. To return to the built-in profile later, save it first.
 *
 * NULL:          `buffer`, `needed`.
 * Values:        `buffer`: `size` bytes.
 */
FERRY_API int32_t ferry_profile_save(ferry_instance *instance, int32_t device, char *buffer, uint64_t size,
                                     uint64_t *needed, ferry_error_info *error);

/*
 * Loads a profile: from now on ferry plans with it on every device here that it fits, as after ferry_device_calibrate.
 * Rates of pairs in the text replace the rates of the same pairs; the rates of other pairs stay. Pairs are skipped if
 * one of their devices is not here, or if the profile does not fit the first. `size` is the length of the text in
 * bytes, with or without an ending zero.
 *
 * Values:        `text`: `size` bytes.
 * Ownership:     `text` is read before return. The instance keeps each different profile that was loaded or measured,
 *                2.4 KB, until it is closed; loading an equal one again takes no more memory.
 * Errors:        FERRY_ERROR_PROFILE: `error` names FERRY_FIELD_VERSION for a text of another version;
 *                FERRY_FIELD_DEVICE if it fits no device here; FERRY_FIELD_DRIVER for another driver version;
 *                FERRY_FIELD_SIZE for an empty text; else FERRY_FIELD_LINE: line number `value` of `limit` was changed
 *                or cannot be true. _OUT_OF_MEMORY. After an error the profiles are unchanged.
 */
FERRY_API int32_t ferry_profile_load(ferry_instance *instance, const char *text, uint64_t size,
                                     ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_DEVICES_H */
