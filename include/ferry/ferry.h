/*
 * ferry: copies between host memory, GPU memory and CUDA arrays.
 *
 * One descriptor says what to copy; ferry checks it, chooses a route and runs it. The library loads the NVIDIA driver
 * at run time. On request it uses its own software driver instead. The headers are the whole C API and its manual. They
 * need no CUDA header: CUDA's handles appear by their tags, so a CUstream or a cudaStream_t needs no cast, and device
 * addresses are uint64_t.
 *
 * ferry.h           Instances, copies, batches, fills, tickets, explanations, errors, streams, device memory.
 * ferry_memory.h    Device memory, pinned memory, registered memory, arrays, pools, deferred frees.
 * ferry_file.h      Files as places of copies.
 * ferry_devices.h   Devices, contexts, peer access, host links, staging buffers, profiles.
 * ferry_ipc.h       Sharing of memory, pools and events between processes.
 * ferry_external.h  Memory and semaphores of graphics APIs.
 * ferry_event.h     Events.
 * ferry_nest.h      Copies between two layouts.
 * ferry_graph.h     Copies and fills as nodes of CUDA graphs.
 * ferry_software.h  The software driver.
 * ferry_all.h       Includes all of these headers.
 *
 * A first copy: this program copies a number to the device and back. FERRY_DRIVER_AUTO selects the software driver if
 * the machine has no GPU. Calls return 0 or an error, see Status. Conventions states what applies to all functions.
 *
 *     #include <ferry/ferry.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *         ferry_options options = {.struct_size = sizeof options, .driver = FERRY_DRIVER_AUTO};
 *         ferry_error_info error = {.struct_size = sizeof error};
 *         ferry_instance *ferry = NULL;
 *         ferry_place host, device;
 *         ferry_copy_desc copy;
 *         uint64_t memory = 0;
 *         float number = 42;
 *         char text[256];
 *         if (ferry_open(&options, &ferry, &error) || ferry_device_alloc(ferry, 0, 4, &memory, &error)) goto failed;
 *         ferry_place_host(&host, &number);
 *         ferry_place_device(&device, 0, memory);
 *         ferry_copy_desc_set(&copy, &device, &host, 4, 1, 1); // 4 bytes, 1 row, 1 slice
 *         if (ferry_copy(ferry, &copy, NULL, &error)) goto failed;
 *         number = 0;
 *         ferry_copy_desc_set(&copy, &host, &device, 4, 1, 1);
 *         if (ferry_copy(ferry, &copy, NULL, &error)) goto failed;
 *         printf("%g\n", number);
 *         ferry_device_free(ferry, memory, NULL);
 *         ferry_close(ferry);
 *         return 0;
 *     failed:
 *         ferry_error_format(&error, text, sizeof text);
 *         fprintf(stderr, "%s\n", text);
 *         return 1;
 *     }
 */
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H

#include <stddef.h>
#include <stdint.h>

/* What stands before each function. A program may define it. */
#if defined(FERRY_API)
#elif defined(_WIN32) && defined(FERRY_BUILD_SHARED)
#define FERRY_API __declspec(dllexport)
#elif defined(__GNUC__)
#define FERRY_API __attribute__((visibility("default")))
#else
#define FERRY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* CUDA's own handles, by tag: CUcontext, CUstream, CUarray, CUmipmappedArray, CUmemoryPool, CUexternalMemory
 * and CUexternalSemaphore are pointers to these, and so are cudaStream_t and cudaMemPool_t. The runtime's
 * cudaArray_t and cudaMipmappedArray_t are the same handles under other tags and take a cast. */
struct CUctx_st;
struct CUstream_st;
struct CUarray_st;
struct CUextMemory_st;
struct CUextSemaphore_st;
struct CUmipmappedArray_st;
struct CUmemPoolHandle_st;

/* One opened library. Opaque, like ferry_file, ferry_pinned_pool, ferry_prepared, ferry_ticket and the bytes of
 * ferry_ipc_handle; all other types of ferry are transparent. */
typedef struct ferry_instance ferry_instance;
typedef struct ferry_file ferry_file; /* of ferry_file.h */

/* Structs that a first copy passes as NULL: see Options, Options of copies, and Details of errors. */
typedef struct ferry_options ferry_options;
typedef struct ferry_copy_options ferry_copy_options;
typedef struct ferry_error_info ferry_error_info;

/* ---------------------------------------------------------------------------------------------------------------
 * Instance
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Opens an instance. NULL `options` are the defaults: the NVIDIA driver or an error. Several instances may be open at
 * the same time, also on both drivers. Instances on the software driver share it: a later one whose driver_options
 * differ from its settings is refused. Never give an instance a handle or a device address of the other driver. The
 * software driver refuses handles that are not its own with the driver's status (-1400, of contexts -1201), but the
 * NVIDIA driver may crash, and both take an address that they do not know for host memory.
 *
 * NULL:          `options`.
 * Blocking:      device. With FERRY_KERNELS_AT_OPEN and FERRY_STAGING_AT_OPEN, the call creates the primary context of
 *                each device and waits for its running work. With the latter, the call also starts threads and pins
 *                memory. Without both, the class is first_use: the call waits for cuInit and creates no context.
 * Ownership:     *instance is the caller's until ferry_close. `options` is read before return. The callbacks and their
 *                data must live until ferry_close has returned.
 * Errors:        FERRY_ERROR_NO_DRIVER, _DRIVER_TOO_OLD, _NO_DEVICE, or the driver's own status if cuInit fails. With
 *                FERRY_DRIVER_AUTO the software driver serves instead, and ferry_report gives that status.
 *                _ABI_MISMATCH, _RESERVED, _FLAGS and _INVALID_ARGUMENT name the option; _SOFTWARE_CONFIG;
 *                _NO_SOFTWARE_DRIVER and _SOFTWARE_BUILD; _OUT_OF_MEMORY. A device that refuses ferry's
 *                kernels at open is logged, and reports FERRY_OBSTACLE_NOT_LOADED later.
 */
FERRY_API int32_t ferry_open(const ferry_options *options, ferry_instance **instance, ferry_error_info *error);

/*
 * Closes an instance: releases the contexts it retained and frees it. First free everything made through the instance
 * (memory, registrations, arrays, streams, events, contexts, pools, imports, prepared batches). Anything left stays as
 * it is. Prepared batches that are left must not be touched again; host memory and pinned pools that are left can no
 * longer be freed. Copies and fills may be in flight. Graphs captured through the instance may not run afterwards,
 * unless they contain no kernel of ferry (FERRY_ROUTE_DRIVER, FERRY_COPY_NO_KERNELS or FERRY_KERNELS_NONE). The call is
 * harmless at process exit and after the driver has gone. In the child of a fork it does nothing: another thread may
 * have been changing the instance's memory, which ends with the child.
 *
 * NULL:          `instance`.
 * Thread-safety: no other call on this instance may be running or come later.
 * Blocking:      device. The call waits until staged copies in flight have ended, unless their context is dead; until
 *                large batches, whose pieces are in tables of the instance (ferry_copy_batch_async), have completed;
 *                and until the work before deferred frees has completed (see ferry_deferred_info). These frees are then
 *                done. If the instance keeps device memory for buffers, the call waits for all work on the devices. If
 *                the instance holds the last reference to a primary context, the driver waits for its work and destroys
 *                it with everything in it. The last instance on the software driver ends that driver: running work ends
 *                first, then all its addresses, arrays and contexts are gone.
 */
FERRY_API void ferry_close(ferry_instance *instance);

/* ---------------------------------------------------------------------------------------------------------------
 * Copies
 * ------------------------------------------------------------------------------------------------------------ */

/* What a place is. */
#define FERRY_KIND_ANY 0    /* `address` decides; memory unknown to the driver is host memory */
#define FERRY_KIND_HOST 1   /* `address` is host memory, pageable or pinned */
#define FERRY_KIND_DEVICE 2 /* `address` is device (or managed) memory on `device` */
#define FERRY_KIND_ARRAY 3  /* `array` is a CUDA array on `device` */
#define FERRY_KIND_PINNED 4 /* `address` is pinned host memory, allocated or registered; not of a host pool */
#define FERRY_KIND_FILE 5   /* `file` is an open file, and `address` is the offset of a byte in it: see ferry_file.h */

/* For kind DEVICE ferry queries the driver. For kind ARRAY it is the device on which the instance made the array; for
 * other arrays, it is the device of the stream or of the other place. */
#define FERRY_DEVICE_UNKNOWN (-1)

/*
 * One end of a copy. The bytes begin x bytes, y rows and z slices after the address or the array's first element.
 *
 * row_pitch     Bytes from one row to the next, at least x + width. 0: rows are tight, width bytes apart; x must then
 *               be 0 unless the copy is one row of the first slice. Not read for arrays.
 * slice_height  Rows from one slice to the next, at least y + height: the allocation's height, not the copy's. 0:
 *               slices are tight, height rows apart; y must then be 0 unless the copy is in the first slice. Not read
 *               for arrays.
 * address       Not read for ARRAY; `array` is read only for ARRAY.
 * device        Not read for ANY and host kinds. Managed memory may be HOST, ANY, or DEVICE on any device. For an array that
 *               the instance made, a level or a plane of it, another device is refused (FERRY_ERROR_DEVICE). The
 *               device of any other array is not checked, because the driver does not report it.
 * file          Of ferry_file_open; NULL for all kinds but FILE.
 * array         Block-compressed arrays count rows and bytes in blocks of 4 x 4 texels. A planar array takes no copy
 *               (the driver's -1001); its planes do.
 *
 * `address` and `array` must live until the work that takes the place is complete.
 *
 * Only full checks refuse every wrong address, other memory that is stated as PINNED, and pageable memory that the
 * process cannot read, or cannot write at a destination. They test the process's mappings, but not the room in a file
 * system for a sparse file. With basic checks the process may crash, as with the driver's own calls, or the driver may
 * refuse such memory. ferry then makes the full checks of the copy to name the field.
 */
typedef struct ferry_place {
    int32_t kind;   /* FERRY_KIND_* */
    int32_t device; /* ordinal; FERRY_DEVICE_UNKNOWN: the program does not know it */
    uint64_t address;
    struct CUarray_st *array; /* NULL: no array */
    uint64_t row_pitch;
    uint64_t slice_height;
    uint64_t x;
    uint64_t y;
    uint64_t z;
    ferry_file *file;     /* NULL: no file */
    uint64_t reserved[3]; /* must be zero */
} ferry_place;

/* One copy. A zeroed descriptor with two addresses and a width is a 1D copy: height 0 and depth 0 count as 1 (CUDA's
 * own calls copy nothing then). Width 0 copies nothing and succeeds if kinds, devices and reserved fields are valid. */
typedef struct ferry_copy_desc {
    ferry_place destination;
    ferry_place source;
    uint64_t width;       /* bytes */
    uint64_t height;      /* rows */
    uint64_t depth;       /* slices */
    uint64_t reserved[5]; /* must be zero */
} ferry_copy_desc;

/*
 * Each builder overwrites the whole place. For a box inside, set x, y and z afterwards. ferry_place_array_layer
 * starts at layer number `layer` of a layered array, or at that face of a cubemap, and sets z to it. ferry_copy checks
 * the values. A NULL place is ignored.
 *
 * NULL:          `place`, `address`, `array`.
 * Ownership:     `address` and `array` must live until the work that takes the place is complete.
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
 * Sets a descriptor from two places, which may be those inside *copy, and an extent. ferry_copy checks the values. A
 * NULL place leaves that end all zero. A NULL copy is ignored.
 *
 * NULL:          `copy`, `destination`, `source`.
 */
FERRY_API void ferry_copy_desc_set(ferry_copy_desc *copy, const ferry_place *destination, const ferry_place *source,
                                   uint64_t width, uint64_t height, uint64_t depth);

/*
 * Copies, and returns when the bytes are visible to the host, to every stream and to every other thread. The copy is
 * ordered like a driver call on the legacy default stream of its context: after earlier work on that stream and on the
 * streams that synchronise with it. The caller orders work on non-blocking streams. To wait for a copy on another
 * stream, use ferry_copy_async and ferry_stream_synchronize. The context is the thread's current context, else the
 * context of the destination's device, else of the source's device, else of device 0.
 *
 * NULL:          `options`.
 * Blocking:      stream. The call returns when the copy is complete.
 * Errors:        FERRY_ERROR_KIND, _OTHER_KIND, _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP,
 *                _ARRAY_FORMAT, _FLAGS, _RESERVED name the field in `error`, and nothing was copied; _UNSUPPORTED from
 *                one 2D layer or face to another of the same array, which the driver gets wrong; _ROUTE if the forced
 *                route cannot make the copy; for files see ferry_file.h. If ferry splits a copy because its host memory
 *                was registered in pieces, and the driver refuses one part, the parts before it were copied.
 *                In the options: _FLAGS for unknown flags; _UNSUPPORTED for FERRY_PRIORITY_BACKGROUND and for routes
 *                that cannot be forced. The driver's own errors may also report earlier asynchronous work that failed.
 */
FERRY_API int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, const ferry_copy_options *options,
                             ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Options
 * ------------------------------------------------------------------------------------------------------------ */

/* ferry_options.driver */
#define FERRY_DRIVER_CUDA 0     /* the default: the NVIDIA driver or an error */
#define FERRY_DRIVER_AUTO 1     /* only passed: the NVIDIA driver if it has a usable device, else the software driver */
#define FERRY_DRIVER_SOFTWARE 2 /* the software driver */

/* ferry_options.checks: what is checked before the driver sees a copy. Full checks find deferred frees, but accept
 * blocks of pools whose free is enqueued. */
#define FERRY_CHECKS_BASIC 0 /* arithmetic, pitches, array bounds and formats, overlap; resolves ANY */
#define FERRY_CHECKS_FULL 1  /* also each address: its kind and device as stated, inside its allocation, not freed */

/* ferry_options.kernels: when ferry's kernels are loaded. */
#define FERRY_KERNELS_LAZY 0    /* in each context, with its first copy by a kernel */
#define FERRY_KERNELS_AT_OPEN 1 /* in ferry_open, which makes all primary contexts; LAZY in other contexts */
#define FERRY_KERNELS_NONE 2    /* never: the driver makes every copy */

/* ferry_options.staging: threads and staging buffers for FERRY_ROUTE_STAGED, pageable memory to or from a device. */
#define FERRY_STAGING_LAZY 0    /* for each device with its first such copy */
#define FERRY_STAGING_AT_OPEN 1 /* in ferry_open, for all devices; loads kernels like FERRY_KERNELS_AT_OPEN */
#define FERRY_STAGING_NONE 2    /* never: the driver makes such copies, and they block */

/* Where host memory or threads are placed. */
#define FERRY_NUMA_ANY 0    /* where the system puts it */
#define FERRY_NUMA_DEVICE 1 /* near `device`: on its node in ferry_device_info; as ANY if that is not known */
#define FERRY_NUMA_NODE 2   /* on node number `numa_node` */

/* How urgent the staging threads are: their niceness. */
#define FERRY_STAGING_PRIORITY_HIGHEST 0    /* -20, or the lowest that the system grants */
#define FERRY_STAGING_PRIORITY_OF_PROCESS 1 /* the main thread's niceness */
#define FERRY_STAGING_PRIORITY_NICENESS 2   /* staging_niceness */

/* Levels of the log callback. */
#define FERRY_LOG_ERROR 0
#define FERRY_LOG_WARNING 1
#define FERRY_LOG_INFO 2

/* A call that copies or fills, for ferry_options.trace. See Traces. */
typedef struct ferry_trace_event ferry_trace_event;

/*
 * How to open an instance. All zero but struct_size means defaults.
 *
 * driver_options  Settings of the software driver: a ferry_software_options (ferry_software.h). It is read in ferry_open,
 *              and only if the software driver is opened.
 * kernels      When ferry's kernels are loaded. Loading takes about a millisecond (H200) for the instance and a third
 *              of that for each context, and waits for running work in the context. With LAZY the first copy by a
 *              kernel pays and waits, as the first launch of any kernel may. Use AT_OPEN in a program that holds
 *              streams back until it has enqueued more.
 * get_proc     The program's own driver loader, with cuGetProcAddress's meaning: returns the newest variant of `name`
 *              that is not newer than `version` (12000 is CUDA 12.0), in its legacy-stream form, or NULL. Plain dlsym
 *              is not sufficient: it returns the oldest version of each function. Called during ferry_open and
 *              ferry_instance_get_proc, on the calling thread; the results must stay valid until ferry_close. ferry
 *              then loads no library. Not used with FERRY_DRIVER_SOFTWARE. Threads: caller; must not call ferry.
 * log          `level`: FERRY_LOG_*. `message` is one line without its end, valid during the callback. ferry writes
 *              nowhere else. Threads: caller; must not call ferry.
 * allocate     Host memory for ferry's own structures; alignment is a power of two; may return NULL. The result must
 *              stay valid until `deallocate`. Set both or neither. Copies call it only on first need for staging, also
 *              on ferry's threads; for a ticket if no released one is free; and for a batch that needs more room than
 *              earlier ones or runs beside others. The software driver does not use it. A graph keeps 16 bytes for each
 *              staged copy in it; they come from malloc, because the graph may outlive the instance. Threads: caller,
 *              ferry; must not call ferry.
 * deallocate   Ends `memory`, which `allocate` returned, and receives its size. Threads: caller, ferry; must not call
 *              ferry.
 * register_chunk  The largest piece that one driver call registers, a multiple of 4096. Drivers refuse pieces of 512
 *              GiB. ferry_host_register splits larger memory; ferry_host_alloc leaves it to the driver.
 * deferred_bytes  The maximum that deferred frees (ferry_array_destroy_deferred and similar calls) keep on each device,
 *              and in the host's memory. Above it, an allocation by ferry there first performs the deferred frees whose
 *              streams have completed the earlier work, which waits for running work. 0: a sixteenth of the device's
 *              memory, for the host a sixteenth of device 0's memory. UINT64_MAX: no limit until an allocation finds no
 *              memory.
 * copy_options  The options of every copy, batch and fill that passes NULL for its ferry_copy_options. ferry_open reads
 *              them before it returns. FERRY_COPY_UPDATABLE is not allowed here.
 * staging      When staging threads start and staging buffers are pinned, for copies between pageable memory and
 *              devices. This takes some milliseconds; with LAZY the first such copy pays. A program whose calls must
 *              never wait uses AT_OPEN or calls ferry_staging_prepare. FERRY_KERNELS_NONE excludes staging: ferry_open
 *              refuses it together with AT_OPEN.
 * staging_threads  The number of worker threads of the instance, for all its devices together, 1 to 64. 0: 8 for each
 *              device that has staged copies, but at most half the processors available to the program, and at least 2.
 *              Since the first copy of a file, 12 for each device, but at most three quarters of the processors.
 *              They sleep when idle and end in ferry_close. One more thread, the watchdog, starts spare workers while
 *              workers are stuck in page faults that do not resolve. Workers and spares are 64 at most.
 * staging_priority  How urgent the workers are to the system: FERRY_STAGING_PRIORITY_*. With _NICENESS they get
 *              staging_niceness, -20 to 19, which must be 0 otherwise. If the system refuses it, they get the nearest
 *              that it grants, at most the main thread's. Their scheduling class is the default one (SCHED_OTHER), with
 *              the shortest slices where the system has them (Linux 6.12).
 * staging_bytes  The size of each device's staging buffer, 4096 to 1 GiB; below 8192 it is 8192, because the buffer has
 *              at least two slots. It is smaller if less can be pinned. It has this size for each of up to four links
 *              that copies of the device take: FERRY_COPY_MULTILINK, and broadcasts of pageable memory.
 * submit       Uses the program's own threads; ferry starts only a watchdog. ferry_open refuses a submit callback
 *              together with FERRY_STAGING_NONE. Each call of submit asks the program to run work(argument) once and
 *              soon, on any thread, even while the rest of the program waits for a stream.
 *              `work` and `argument` are valid until `work` has returned. Until it runs, the copy and the work behind
 *              it on its stream stand still. Returns 1 if work will be called, else 0; ferry then starts one thread of
 *              its own, which stays until ferry_close. The driver calls submit from a host function, so neither submit
 *              nor work may call the driver or wait for a thread that does. work calls no driver and returns when
 *              nothing is left to do. submit may run work itself, as a full thread pool does: the work then returns
 *              immediately, and ferry starts one thread of its own, as if submit had returned 0. submit must not wait
 *              for work that another thread runs. A copy requests at most staging_threads threads. The watchdog starts
 *              a copying thread in two cases: all threads that came are stuck in page faults that do not resolve, or
 *              none came while a thread waits for a ticket. That thread runs for as long as it is needed. Threads:
 *              driver; must not call ferry or the driver.
 * staging_cpus  The processors for the workers: staging_cpu_count numbers, read before ferry_open returns. Or all
 *              processors of a node: staging_numa FERRY_NUMA_NODE and staging_numa_node. Not both, and a list needs its
 *              count. Default: the processors of the program's main thread at ferry_open, whichever thread copies
 *              first. On a machine with several NUMA nodes, the default threads of a device (staging_threads 0) use, of
 *              these processors, only the processors of the device's node if there are at least two for each thread. A
 *              staging buffer is always near its device.
 * trace        Called for every copy, batch and fill whose ferry_copy_options are valid, also one that fails: when the
 *              call begins, when it returns, and for work on a stream once it has completed, on one of ferry's threads.
 *              That thread checks every 0.05 ms; the stream does not wait for it. There is no third event if the call
 *              failed, did nothing, or became part of a graph, if the work has not completed at ferry_close, or if the
 *              context ended without ferry_context_destroy. `event` is valid during the callback. For the third event,
 *              each call on a stream records a driver event, which takes a few microseconds. Threads: caller, ferry;
 *              must not call ferry.
 * trace_phases  The events wanted: FERRY_PHASE_*, joined by |. 0: all.
 * max_pinned_bytes  The maximum of pinned memory that the instance uses for itself: staging buffers and their records,
 *              tables of batches, and buffers of the routes BUFFERED, RELAYED and MULTILINK. The program's own pinned
 *              memory does not count. If less than a part wants is left, it gets less memory, or the copy takes
 *              another route. If the options force the route, the call fails with FERRY_ERROR_LIMIT and
 *              FERRY_FIELD_MAX_PINNED_BYTES, or FERRY_OBSTACLE_NO_STAGING. No call waits because of this limit.
 *              ferry_staging_trim releases memory that no copy needs.
 * max_device_bytes  The maximum of memory on each device that the instance uses for itself: tables of prepared batches,
 *              counters of the route MULTILINK, and buffers of nests (ferry_nest.h) and of staged arrays that kernels
 *              cannot access. Without a limit, the instance keeps up to 64 MiB of each device for buffers.
 *              ferry_prepared_create and ferry_multilink_set fail with FERRY_ERROR_LIMIT and
 *              FERRY_FIELD_MAX_DEVICE_BYTES if less is left; nests and arrays are then copied without a buffer. A table
 *              that waits for its stream after ferry_prepared_destroy_deferred counts for deferred_bytes instead.
 * max_threads  The maximum number of threads that the instance starts. At least 3, unless the options exclude staging,
 *              and one more if traces report FERRY_PHASE_DONE: the watchdog, the thread of traces and one temporary
 *              thread leave the other threads to the workers, whose number staging_threads limits too. Threads that
 *              the workers do not need may be spare workers. ferry_host_alloc then starts threads only if
 *              ferry_host_options.threads states their number; these do not count.
 *
 * Threads lists where a callback may run: caller, the thread of a call of this instance, including ferry_open and
 * ferry_close; ferry, a thread that ferry started; driver, a thread of the driver. A callback may run on several
 * threads at the same time. No callback may throw.
 */
struct ferry_options {
    uint32_t struct_size;
    int32_t driver;             /* FERRY_DRIVER_* */
    int32_t checks;             /* FERRY_CHECKS_* */
    int32_t kernels;            /* FERRY_KERNELS_* */
    const void *driver_options; /* a ferry_software_options; NULL: the defaults */
    void *(*get_proc)(void *user, const char *name, int32_t version);
    void *get_proc_user;
    void (*log)(void *user, int32_t level, const char *message);
    void *log_user;
    void *(*allocate)(void *user, uint64_t size, uint64_t alignment);
    void (*deallocate)(void *user, void *memory, uint64_t size);
    void *allocate_user;
    uint64_t register_chunk;                /* bytes; 0: 256 GiB */
    uint64_t deferred_bytes;                /* 0: a sixteenth of the device's memory */
    const ferry_copy_options *copy_options; /* NULL: the ordinary choice */
    int32_t staging;                        /* FERRY_STAGING_* */
    uint32_t staging_threads;
    int32_t staging_priority; /* FERRY_STAGING_PRIORITY_* */
    int32_t staging_niceness; /* of FERRY_STAGING_PRIORITY_NICENESS */
    uint64_t staging_bytes;   /* 0: 16 MiB */
    int32_t (*submit)(void *user, void (*work)(void *argument), void *argument);
    void *submit_user;
    int32_t staging_numa; /* FERRY_NUMA_ANY or FERRY_NUMA_NODE */
    int32_t staging_numa_node;
    const int32_t *staging_cpus; /* `staging_cpu_count` elements; NULL: any */
    uint32_t staging_cpu_count;
    uint32_t trace_phases; /* FERRY_PHASE_*; 0: all */
    void (*trace)(void *user, const ferry_trace_event *event);
    void *trace_user;
    uint64_t max_pinned_bytes; /* 0: no limit, as for the next two */
    uint64_t max_device_bytes;
    uint32_t max_threads;
    uint32_t reserved; /* must be zero */
};

/* ---------------------------------------------------------------------------------------------------------------
 * Traces
 * ------------------------------------------------------------------------------------------------------------ */

/* What was called: ferry_trace_event.kind. */
#define FERRY_TRACE_COPY 1     /* a single copy */
#define FERRY_TRACE_BATCH 2    /* a batch of copies or pieces */
#define FERRY_TRACE_PREPARED 3 /* the launch of a prepared batch */
#define FERRY_TRACE_FILL 4

/* When an event is reported: ferry_trace_event.phase, ferry_options.trace_phases. */
#define FERRY_PHASE_BEGIN 1u  /* the call begins */
#define FERRY_PHASE_RETURN 2u /* the call returns */
#define FERRY_PHASE_DONE 4u   /* the work of a call that did not wait for it has completed on the stream */

/* One call that copies or fills, for ferry_options.trace. Times are nanoseconds of the system's monotonic clock
 * (CLOCK_MONOTONIC). */
struct ferry_trace_event {
    uint32_t struct_size;
    int32_t kind;         /* FERRY_TRACE_* */
    uint64_t id;          /* of the call, from 1: the same in all of its events */
    uint64_t begin_ns;    /* when the call began */
    uint64_t returned_ns; /* when it returned; 0: not yet */
    uint64_t done_ns; /* when the stream was seen to have passed the work, or the call had waited for it; 0: not yet */
    uint64_t bytes;   /* that were to be copied or filled */
    uint64_t count;   /* of copies or fills */
    struct CUstream_st *stream; /* belongs to the program */
    uint32_t routes;            /* bits 1 << FERRY_ROUTE_*: those taken; 0: nothing was enqueued */
    int32_t status;             /* of the call; in FERRY_PHASE_DONE of its work */
    int32_t device;             /* of the context that it ran in; -1: nothing was enqueued */
    int32_t is_synchronous;     /* 1: the call waits for its work */
    uint32_t phase;             /* FERRY_PHASE_* */
    uint32_t reserved;
    uint64_t tag; /* ferry_copy_options.tag */
};

/* ---------------------------------------------------------------------------------------------------------------
 * Conventions
 *
 * Units       X, width and row pitch are bytes; Y, height and slice height are rows; Z and depth are slices. The unit
 *             of any other number follows from its name, unless its comment begins with a unit:
 *             address: address, destination, source, destinations, sources, indices, skipped, range_start, device_address
 *             bytes: x, width, row_pitch, max_pitch, size, sizes, bytes, alignment, offset, stride, keep, needed, memory,
 *               total_memory, register_chunk, release_threshold, bytes_*, reserved_*, used_*, *_alignment, *_bytes, *_size
 *             rows: y, height, slice_height
 *             slices: z, depth, layer
 *             nanoseconds: *_ns
 *             milliseconds: *_ms
 *             mb_per_s: *_mb_per_s
 *             device: device, peer, helpers, *_device
 *             count: count, copies, calls, threads, links, levels, channels, arrays, allocations, devices, queues,
 *               copies_in_flight, *_count, *_refused, *_threads, *_sms, *_peers, *_contexts
 *             index: index, level, plane, staging_cpus
 *             number: id, tag, value, limit, process, priority, version, compute_*, performance_rank, luid_node_mask,
 *               *numa_node, *_niceness, *_version
 *             handle: handle, os_handle
 * Devices     Have the numbers 0 to ferry_report.device_count - 1, in the driver's order.
 * Status      Calls return int32_t: 0 is success, -1 to -999 are ferry's own errors (FERRY_ERROR_*), and -1000 - r
 *             is the status of the driver's CUresult r. ferry_status_name and ferry_status_text explain all of them.
 *             Every field and parameter named `status` is one of these. Every function that returns a status, and no
 *             other, has a ferry_error_info as its last parameter, named `error`: the call writes the details of the
 *             error there. ferry_version returns a number, not a status.
 * Errors      A call that fails has done nothing unless its comment says otherwise. After a failure, pointer, handle
 *             and number outputs are 0 or NULL, and output structs are unchanged. Every call that returns a status
 *             may return the common errors: FERRY_ERROR_INVALID_ARGUMENT for a NULL that is not allowed and for a
 *             number outside its documented range, _ABI_MISMATCH for a struct_size, _DEVICE for a device that does
 *             not exist, _UNSUPPORTED where the driver lacks the feature, and the driver's own statuses.
 * Labels      The comment of a function has six labels. A label that is left out means:
 *             NULL: allowed for `error` and for `stream`, which is then the default stream.
 *             Values: any number; a pointer is to one object, or to a text that ends with zero.
 *             Thread-safety: safe from any thread.
 *             Blocking: none.
 *             Ownership: structs, arrays and strings stay the caller's and are not used after the call; an object that
 *               the call ends is gone. "*name is the caller's until" names the functions of which one must end it.
 *             Errors: the common errors if the function returns a status, else none.
 *             Parameters listed after NULL, and errors that are listed, come in addition to these, except after
 *             "none". Under Ownership, "lasts until" names the functions of which one undoes the call. A function that
 *             ends an object or undoes a call waits for work that uses the object, or takes a stream that comes after
 *             that work, or says that the work continues or that no work may use the object.
 * Blocking    The first word of the label Blocking is the class of the function: what a call may wait for. Each class
 *             includes the waits of the classes before it:
 *             none: ferry's internal locks, for a short time. The call makes no driver call, except for queries of
 *               streams, events, addresses and contexts. These queries return while another thread frees memory.
 *             driver_lock: a lock of the driver. Another thread holds this lock while its own driver call runs, for
 *               example until a free has waited for the device. The call does not wait for work of the GPU. Functions
 *               that open, close or measure a file also have this class: they wait for the file system.
 *             first_use: like driver_lock, but the first call in an instance or a context also creates a context, loads
 *               kernels, starts threads or pins memory. This takes milliseconds, and the driver may wait for running
 *               work of the device. ferry_staging_prepare and ferry_options.kernels do this work in advance.
 *             stream: work of a stream.
 *             device: all work of a device, as cuMemFree, cuMemHostUnregister and cuModuleLoad do.
 *             The text after the class says when the call waits. A call of any class first creates a context if it
 *             needs one (see Contexts). A call that enqueues work waits if its stream already has about a thousand
 *             pending operations.
 * Values      Under the label Values, `name` is a parameter or what the call stores in *name, and "returned" is the
 *             result. FERRY_GROUP_* means one constant of the group. Of flags, which end in u, it means any
 *             combination, including 0. An array has the stated number of elements or bytes. A number, NULL or a
 *             constant with a colon is a value with a meaning of its own, such as "-1: not known". The comments of
 *             fields begin alike; "1:" there means that the field is 0 or 1. "only passed" and "only reported" begin
 *             the comment of a constant that ferry does not report or does not take.
 * Contexts    Every call, also one that fails, leaves the thread's current CUDA context unchanged; only
 *             ferry_context_push and ferry_context_pop change it. A thread without a context may call anything. A call
 *             that takes a device uses ferry's context for that device (see Contexts). Other calls use the current
 *             context, else device 0's. The first call that needs one of these contexts may take as long as
 *             ferry_context_retain_primary. Memory, arrays, streams and events end with their context at the latest.
 *             Host memory that ferry mapped (FERRY_HOST_FROM_MAPPING) stays allocated then, but is no longer pinned.
 *             The driver's pools belong to no context.
 * Structs     Options, descriptions, ferry_error_info and output structs begin with struct_size: set it to sizeof the
 *             struct. Smaller structs, from an older header, are accepted. In a larger input struct the bytes unknown
 *             to this library must be zero. In a larger output struct they are zeroed; in ferry_error_info they are
 *             left alone. Sizes below 8 or above 4096 are refused; a ferry_error_info of size 1 to 7 is not filled.
 *             ferry_place, ferry_copy_desc, ferry_fill_desc, ferry_piece, ferry_axis, ferry_nest_end, ferry_nest,
 *             ferry_batch_share, ferry_route_counters, ferry_level_footprint and ferry_ipc_handle have no struct_size and
 *             never change.
 *             Reserved fields must be zero. A call that "fills" a struct fills it up to its struct_size.
 * Strings     Returned strings are UTF-8 and static: they must not be freed. A returned pointer is NULL only where the
 *             label NULL says so.
 * Threads     Any number of threads may call any function at the same time on one instance. Exceptions: ferry_close,
 *             ending an object in use, and limits in a function's comment. pthread_cancel must not cancel a thread in a
 *             call.
 * Forks       In the child of a fork, ferry_prepared_destroy, ferry_device_free_async and the calls on tickets,
 *             staging, pinned pools and deferred frees return -1003 and do nothing. Other calls return the driver's
 *             status for a child, which is the same; ferry_close does nothing.
 * Bindings    ferry.json, beside this header, describes all of it for generators, and lists the driver functions that
 *             each function calls. ferry.ffi.h has the declarations alone. All constants fit int32_t, or uint32_t if
 *             they end in u; with bindgen, use --default-macro-constant-type signed. Callbacks use C's calling
 *             convention. Those that come on ferry's or the driver's own threads find most signals blocked there, so a
 *             runtime that stops threads by a signal (Mono) may not run in them.
 * ------------------------------------------------------------------------------------------------------------ */

/* ---------------------------------------------------------------------------------------------------------------
 * Version
 * ------------------------------------------------------------------------------------------------------------ */

/* The version of these headers. */
#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 7
#define FERRY_VERSION_PATCH 0

/*
 * Returns the version of the loaded library: major * 10000 + minor * 100 + patch.
 *
 * Errors:        none.
 */
FERRY_API int32_t ferry_version(void);

/* ---------------------------------------------------------------------------------------------------------------
 * Status
 * ------------------------------------------------------------------------------------------------------------ */

/* Success, and the errors that ferry defines. */
#define FERRY_SUCCESS 0                   /* counts as one of FERRY_ERROR_* */
#define FERRY_ERROR_INVALID_ARGUMENT (-1) /* a required pointer is NULL, or a value is outside its documented range */
#define FERRY_ERROR_OUT_OF_MEMORY (-2)    /* host memory for ferry's own use; device memory is a driver status */
#define FERRY_ERROR_ABI_MISMATCH (-3)     /* struct_size is out of range, or covers unknown bytes that are not zero */
#define FERRY_ERROR_RESERVED (-4)         /* a reserved field is not zero */
#define FERRY_ERROR_FLAGS (-5)            /* an unknown flag is set */
#define FERRY_ERROR_KIND (-6)             /* no such kind */
#define FERRY_ERROR_DEVICE (-7)  /* no such device; not the array's device; full checks: not the memory's device */
#define FERRY_ERROR_ADDRESS (-8) /* null address or array; full checks: freed, foreign or inaccessible memory */
#define FERRY_ERROR_PITCH                                                                                              \
    (-9) /* row pitch below x + width or above the device's limit, slice height below y + height */
#define FERRY_ERROR_OVERFLOW (-10)      /* offsets and extent do not fit 64 bits */
#define FERRY_ERROR_OUT_OF_BOUNDS (-11) /* the box reaches past the array; full checks: past the allocation */
#define FERRY_ERROR_OVERLAP (-12)       /* source and destination share bytes */
#define FERRY_ERROR_ARRAY_FORMAT                                                                                       \
    (-13) /* element sizes differ, x or width is no whole number of elements, no such format */
#define FERRY_ERROR_NO_DRIVER (-14)       /* no NVIDIA driver on this machine */
#define FERRY_ERROR_DRIVER_TOO_OLD (-15)  /* a driver older than CUDA 12.0, or one that lacks a required entry point */
#define FERRY_ERROR_NO_DEVICE (-16)       /* a driver without a usable device */
#define FERRY_ERROR_UNSUPPORTED (-17)     /* this version of ferry or this driver has no such feature */
#define FERRY_ERROR_SOFTWARE_CONFIG (-18) /* the software driver already runs with other settings */
#define FERRY_ERROR_NO_CONTEXT (-19)      /* no context to pop or to release, or the call cannot use the context */
#define FERRY_ERROR_PEER_ACCESS (-20)     /* one device cannot access the memory of the other */
#define FERRY_ERROR_ALIGNMENT (-21)       /* an address, pitch, width or stride is no multiple of the required size */
#define FERRY_ERROR_CAPTURE (-22)         /* a graph cannot contain this call, as a node or by capture of its stream */
#define FERRY_ERROR_LIMIT (-23)           /* a pool or budget is at its limit, or the staging buffer has no free slot */
#define FERRY_ERROR_IN_USE (-24)          /* memory of the pool is still allocated or imported */
#define FERRY_ERROR_HANDLE (-25)          /* not a handle for this call, or damaged, or its object no longer exists */
#define FERRY_ERROR_MACHINE (-26)         /* the handle was made on another machine, or before the last reboot */
#define FERRY_ERROR_POOL (-27)            /* the pool of this memory is not imported, or this is no imported pool */
#define FERRY_ERROR_IMPORTED                                                                                           \
    (-28) /* imported: it cannot be freed, changed or allocated from, and ends with its import */
#define FERRY_ERROR_NOT_SHAREABLE (-29)      /* this memory, pool, event or semaphore cannot be shared */
#define FERRY_ERROR_PROFILE (-30)            /* the profile is damaged, old, or of another device or driver */
#define FERRY_ERROR_ROUTE (-31)              /* no route that the options allow can take this copy: see value */
#define FERRY_ERROR_NO_SOFTWARE_DRIVER (-32) /* libferry-software, the library of the software driver, is missing */
#define FERRY_ERROR_SOFTWARE_BUILD (-33)     /* libferry-software is of another build than this library */
#define FERRY_ERROR_OTHER_KIND (-34)  /* full checks: memory of another kind than stated; a handle of another kind */
#define FERRY_ERROR_PAGEABLE (-35)    /* a fill of pageable memory, which the device cannot access */
#define FERRY_ERROR_DATA_LOST (-36)   /* the driver reports peer access, but the probe lost data */
#define FERRY_ERROR_NOT_READY (-37)   /* the time-out of a wait is over, and the work has not ended */
#define FERRY_ERROR_WOULD_BLOCK (-38) /* FERRY_COPY_NO_WAIT: the call would wait, and has done nothing */
#define FERRY_ERROR_FILE (-39)        /* the system could not open, read or write the file, or the file has ended */

/* The status of the driver's CUresult r is FERRY_STATUS_DRIVER_BASE - r, and r is FERRY_STATUS_DRIVER_BASE - status. */
#define FERRY_STATUS_DRIVER_BASE (-1000)

/*
 * Returns the constant's name, such as "FERRY_ERROR_PITCH" or, for a driver's result, "CUDA_ERROR_INVALID_VALUE".
 * Unknown statuses are "FERRY_ERROR_UNKNOWN_STATUS", unknown results of the driver "CUDA_ERROR_UNKNOWN_RESULT". Needs
 * no instance.
 */
FERRY_API const char *ferry_status_name(int32_t status);

/* Returns the meaning of the status in a few English words, also for unknown statuses. Needs no instance. */
FERRY_API const char *ferry_status_text(int32_t status);

/* How to react to a status: ferry_status_traits. */
#define FERRY_STATUS_CONTEXT_DEAD 1u /* the context (or the driver) is lost: every later call on it will fail too */
#define FERRY_STATUS_RETRY 2u        /* the same call may succeed later, or once memory has been freed */

/*
 * Returns how to react to a status; 0 also for unknown statuses. Needs no instance. FERRY_ERROR_WOULD_BLOCK has the
 * trait FERRY_STATUS_RETRY, but the same call may succeed later only if `value` in the error is FERRY_OBSTACLE_BUSY.
 * With FERRY_OBSTACLE_NOT_PREPARED, call ferry_staging_prepare first. With FERRY_OBSTACLE_WAITS, repeating the call does
 * not help while the stream is in the same state.
 *
 * Values:        returned: FERRY_STATUS_CONTEXT_DEAD, FERRY_STATUS_RETRY or 0.
 */
FERRY_API uint32_t ferry_status_traits(int32_t status);

/* ---------------------------------------------------------------------------------------------------------------
 * Options of copies, and copies on streams
 * ------------------------------------------------------------------------------------------------------------ */

/* How a copy travels: ferry_copy_options.route, and the routes that explanations, tickets and traces report. */
#define FERRY_ROUTE_AUTO 0     /* only passed: ferry chooses the route */
#define FERRY_ROUTE_NONE 0     /* only reported: there is nothing to copy, because the width is 0 */
#define FERRY_ROUTE_DRIVER 1   /* by the driver's own calls: one, or more if host memory is registered in pieces */
#define FERRY_ROUTE_KERNEL 2   /* by one of ferry's kernels on the copy's stream */
#define FERRY_ROUTE_STAGED 3   /* by CPU threads and a kernel or copies on the stream, through pinned memory */
#define FERRY_ROUTE_BUFFERED 4 /* only reported: the calling thread reads the source into pinned memory */
#define FERRY_ROUTE_RELAYED 5 /* between devices, through pinned memory, by the driver's calls on ferry's own streams */
#define FERRY_ROUTE_MULTILINK 6 /* only reported: by kernels of several devices, each over its own host link */

/* ferry_copy_options.priority */
#define FERRY_PRIORITY_NORMAL 0
#define FERRY_PRIORITY_URGENT 1     /* does not wait for other copies in the queue of a copy engine */
#define FERRY_PRIORITY_BACKGROUND 2 /* not implemented: FERRY_ERROR_UNSUPPORTED */

/* ferry_copy_options.source_order. The values differ from the values of CUmemcpySrcAccessOrder. */
#define FERRY_SOURCE_ORDER_ANY 0    /* the source is read at any time until the copy is complete */
#define FERRY_SOURCE_ORDER_STREAM 1 /* the source is read after the earlier work on the stream */
#define FERRY_SOURCE_ORDER_CALL 2   /* the source is read before the call returns */

/* ferry_copy_options.flags */
#define FERRY_COPY_NO_KERNELS 0x1u          /* leaves all SMs to other work */
#define FERRY_COPY_MULTILINK 0x2u           /* uses the host links of several devices */
#define FERRY_COPY_DESTINATION_WRITTEN 0x4u /* the call returns after a pageable destination is complete */
#define FERRY_COPY_CHECK_OVERLAP 0x8u       /* rejects a batch or a nest whose copies overlap */
#define FERRY_COPY_UPDATABLE 0x10u          /* allows ferry_prepared_set_addresses */
#define FERRY_COPY_NO_WAIT 0x20u            /* a call that would wait returns FERRY_ERROR_WOULD_BLOCK */

/*
 * How a call makes its copies or its fill. Every call that enqueues or explains work takes these options. NULL means
 * the options of the instance (ferry_options.copy_options). A struct replaces all of them. 0 is the ordinary choice in
 * every field except struct_size. In a batch, the options apply to every copy. The struct is read before the call
 * returns. An error in the struct names FERRY_SIDE_OPTIONS and the field.
 *
 * route         How the bytes travel. A route other than AUTO is forced: if it cannot make the copy, the call fails
 *               with FERRY_ERROR_ROUTE.
 *   AUTO        ferry chooses the route.
 *               If earlier work on the stream is pending, copies of pageable memory are staged where staging can serve.
 *               On an idle stream, they are staged above 1 MiB, and up to 1 MiB if staging is predicted to be faster.
 *               In four cases, the prediction decides at every size: in synchronous calls, while staging is delayed on
 *               a busy machine, if no kernel can serve, and on the software driver.
 *               Copies of 2 MiB or more between devices without access to each other are relayed if the relay is
 *               predicted to be at least 5 % faster.
 *               A kernel makes copies with gaps or of arrays if it is predicted to be at least 5 % faster.
 *               The driver makes all other copies.
 *   DRIVER      The driver's functions make the copy. A fill uses no kernel.
 *   KERNEL      A kernel of ferry makes the copy. With NO_KERNELS, the call fails with FERRY_ERROR_ROUTE.
 *   STAGED      CPU threads and a kernel make the copy through pinned memory. With NO_KERNELS, and if no kernel can
 *               serve, copies on the stream replace the kernel. In these two cases, the call fails with
 *               FERRY_ERROR_LIMIT if the staging buffer has no free slot. Fills ignore this route.
 *   RELAYED     The copy goes from device to device through pinned memory. The call fails with FERRY_ERROR_LIMIT if all
 *               streams of ferry are in use. Fills ignore this route.
 * priority      Whether the copy may wait for copies on other streams. Its own stream is always in order.
 *   NORMAL      The copy may wait in the queue of a copy engine.
 *   URGENT      The copy does not wait in such a queue. A kernel makes the copy if a kernel can serve. Pageable memory
 *               is staged without a prediction. There is one exception: if the source may be read in the call, the
 *               driver makes contiguous copies of up to 64 KiB from pageable to device memory, because it sends their
 *               bytes past the queues. ferry chooses neither a relay nor a broadcast. With NO_KERNELS, no kernel is
 *               used. The route DRIVER ignores the priority.
 * source_order  When an asynchronous call reads a pageable source. Synchronous calls read it in stream order. Pinned
 *               sources, copies to host memory and fills ignore this field.
 *   ANY         ferry reads the source at any time until the copy is complete. Until then, the program must not change
 *               the source. Earlier work on the stream must not write the source, except for copies by ferry.
 *   STREAM      ferry reads the source after the earlier work on the stream, which may write the source. The program
 *               must not change the source until the copy is complete.
 *   CALL        ferry reads the source before the call returns, as the driver's own calls do. After the call, the
 *               program may write or free the source. Earlier work on the stream must not write the source.
 *               If earlier work is pending, the calling thread reads up to 1 MiB into pinned memory without waiting
 *               (FERRY_ROUTE_BUFFERED). If the copy is larger, or if the instance has 32 MiB of such memory in use, the
 *               call waits for the earlier work and until the source has been read.
 *               The driver makes contiguous copies of up to 4 KiB to linear memory: it puts their bytes into its
 *               commands. The call waits if a thousand such copies are pending on the stream.
 *               Under capture, the call fails with FERRY_ERROR_CAPTURE.
 * max_sms       The maximum number of SMs that a kernel uses, up to 65535. 0: as many as are useful.
 * tag           A number that the program chooses. ferry_trace_event and ferry_ticket_info contain it.
 * flags         FERRY_COPY_*, joined by |.
 *   NO_KERNELS  No kernel is used, so all SMs stay free for other work. Outside graphs, copies on the stream stage
 *               pageable memory if the staging buffer has free slots. An asynchronous copy of more than 256 MiB, or of
 *               less with a small staging buffer, is staged only if the options make the call wait. The driver's
 *               functions make all other copies.
 *   MULTILINK   A copy between host memory and the device also uses the host links of the helpers that
 *               ferry_multilink_set names. Kernels on the helpers copy a part of the bytes. This applies to pinned
 *               memory from 4 MiB on, and to staged copies from 32 MiB on. Other copies, copies in graphs, copies with
 *               NO_KERNELS, and the routes DRIVER, KERNEL and RELAYED ignore the flag.
 *   DESTINATION_WRITTEN  A pageable destination is complete when an asynchronous call returns, as after the driver's
 *               own calls. The calling thread waits for the earlier work on the stream, and helps if the copy is
 *               staged. The stream may continue a moment later. Under capture, the call fails with FERRY_ERROR_CAPTURE.
 *               Other destinations, copies between host memory, and fills ignore the flag.
 *   CHECK_OVERLAP  A batch fails with FERRY_ERROR_OVERLAP if one copy writes bytes that another copy reads or writes.
 *               Single copies ignore the flag: their source and destination are always checked. ferry_nest.h states
 *               what the flag means for nests.
 *   UPDATABLE   Allows ferry_prepared_set_addresses. ferry_prepared_create_pieces accepts the flag.
 *               ferry_copy_batch_explain_async and ferry_copy_pieces_explain_async explain a launch of a batch that is
 *               prepared with the flag. ferry_prepared_launch ignores it, and all other calls reject it.
 *   NO_WAIT     A call that would wait for work of a stream or of a device, or for first-use work, returns
 *               FERRY_ERROR_WOULD_BLOCK and does nothing. If another route would not wait, ferry takes that route. So the
 *               call waits as the class driver_lock does (see Blocking), and for page faults of a source that it reads
 *               itself: up to 1 MiB with CALL, and up to 256 KiB otherwise. The value in `error` says why the call was
 *               refused. FERRY_OBSTACLE_WAITS: every route would wait. _NOT_PREPARED: first-use work is left to do.
 *               _BUSY: the same call may succeed later. ferry_staging_prepare and FERRY_STAGING_AT_OPEN do the
 *               first-use work of STAGED, KERNEL and BUFFERED in ferry's context for the device. For the other routes,
 *               the first copy without NO_WAIT does it. Synchronous calls are refused, unless they have nothing to copy.
 *               A batch is checked as a whole. If it has several copies of pageable memory, a kernel must be able to
 *               stage all of them together. Once a batch has begun, it is completed, even if another thread has taken
 *               what it needs and the call must wait. A prepared batch follows NO_WAIT at each launch.
 */
struct ferry_copy_options {
    uint32_t struct_size;
    uint32_t flags;       /* FERRY_COPY_* */
    int32_t route;        /* FERRY_ROUTE_* */
    int32_t priority;     /* FERRY_PRIORITY_* */
    int32_t source_order; /* FERRY_SOURCE_ORDER_* */
    uint32_t max_sms;
    uint64_t tag;
};

/* The progress of a copy. Opaque. */
typedef struct ferry_ticket ferry_ticket;

/*
 * Enqueues a copy on `stream`: it starts after earlier work there, and is complete for later work. `stream` is any
 * CUstream or cudaStream_t. NULL and FERRY_DEFAULT_STREAM_LEGACY are the legacy default stream, and
 * FERRY_DEFAULT_STREAM_PER_THREAD is the per-thread one (both cast to a pointer). The context is the stream's; for those
 * three it is found as for ferry_copy. `ticket` may be NULL, except for files; *ticket reports the progress.
 *
 * The call returns immediately, except where this table names a wait: "read" is until the pageable source has been
 * read, "complete" is until the copy to host memory is complete. ferry_copy_explain_async reports the wait of a copy.
 *
 * ends and size         stream is idle       | earlier work is pending on the stream
 * without pageable      returns immediately  | returns immediately
 * pageable to 1 MiB     read or complete     | returns immediately
 * pageable above 1 MiB  returns immediately  | returns immediately
 * CALL to 1 MiB         read                 | returns immediately
 * CALL above 1 MiB      read                 | read, after the earlier work
 * DESTINATION_WRITTEN   complete             | complete, after the earlier work
 * not staged            read or complete     | read or complete, after the earlier work
 * host to host          complete             | complete, after the earlier work
 *
 * The rows with pageable are for copies between pageable memory and memory or an array of the stream's device. On an
 * idle stream, these copies are staged and return immediately if staging is predicted to be faster than the driver.
 * Above 1 MiB they are always staged, except in three cases that the prediction decides: staging is late because the
 * machine is busy, no kernel can serve, or the driver is the software driver. On an idle stream, a staged copy waits up
 * to 0.1 ms until the device has started a kernel, about 10 us if the device is idle. A small upload waits up to 30 us
 * (0.3 ms on the software driver) for an upload by ferry just before it on the stream. With the source orders ANY and
 * CALL, a contiguous upload of up to 64 KiB to linear memory does not wait on an idle stream: the driver copies the
 * source into its commands.
 *
 * CALL is FERRY_SOURCE_ORDER_CALL with a pageable source, and DESTINATION_WRITTEN is that flag with a pageable
 * destination. If 32 MiB of such sources are in use, a copy with CALL waits as above 1 MiB.
 *
 * Copies of pageable memory are not staged if the other end is managed memory or memory of another device; if the call
 * does not wait for a copy of more than 256 MiB, the other end is an array without a surface, and there is no memory
 * for a buffer; if the options exclude staging; and with NO_KERNELS if no slots are free or the call does not wait for
 * a copy of more than 256 MiB (see docs/staging.md). Before these copies, ferry does not wait for earlier work if the
 * source may be read before that work, but the driver may (docs/contract.md). Memory of a host pool does not count as
 * host memory here if the device of the copy's other end has access to the pool, or between host memory the stream's
 * device.
 *
 * NULL:          `ticket`, `options`.
 * Blocking:      stream, where the table says that the call waits. Otherwise driver_lock. The first copy by a kernel in
 *                a context is first_use, because it loads the kernel. The first staged, buffered or relayed copy is
 *                first_use, because it starts threads, creates streams or pins memory (ferry_options.kernels and
 *                staging).
 * Ownership:     `copy` is read before return. The memory must live until the copy is complete, and the source must not
 *                change until then. A pageable source with FERRY_SOURCE_ORDER_CALL is only needed until the call
 *                returns. Memory that is unmapped while a copy runs cannot be made safe.
 *                *ticket is the caller's until ferry_ticket_release, which must come before ferry_close.
 * Errors:        as ferry_copy; nothing was enqueued, except the parts of a split copy, the launches of a staged one
 *                above 1 GiB, or the chunks of a relayed one, before the one that fails. FERRY_ERROR_CAPTURE on a
 *                stream that is being captured, for three kinds of copy: between memory from pools of two devices,
 *                neither of which has access to the other's pool; from pageable memory to a device without staging,
 *                because the driver would read the source at the launch, before the graph's earlier nodes have run; and
 *                of pageable memory with FERRY_SOURCE_ORDER_CALL or FERRY_COPY_DESTINATION_WRITTEN. With a ticket also
 *                _OUT_OF_MEMORY, _UNSUPPORTED, and _CAPTURE under any capture, because the copy may run any number of
 *                times. If the driver refuses only the event behind the copy, the copy is in flight all the same. A
 *                later call that synchronises reports later failures.
 */
FERRY_API int32_t ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy,
                                   const ferry_copy_options *options, struct CUstream_st *stream, ferry_ticket **ticket,
                                   ferry_error_info *error);

/*
 * Copies `size` bytes from address to address, both of kind ANY, otherwise as ferry_copy. Pass host addresses as
 * integers: (uint64_t)(uintptr_t)pointer.
 *
 * NULL:          `options`.
 * Blocking:      stream, as ferry_copy.
 * Errors:        FERRY_ERROR_ADDRESS, _OVERFLOW, _OUT_OF_BOUNDS, _OVERLAP; as ferry_copy.
 */
FERRY_API int32_t ferry_copy_bytes(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                   const ferry_copy_options *options, ferry_error_info *error);

/*
 * ferry_copy_bytes on a stream, as ferry_copy_async.
 *
 * NULL:          `options`, `ticket`.
 * Blocking:      stream, as ferry_copy_async.
 * Ownership:     the memory must live until the copy is complete; *ticket as for ferry_copy_async.
 * Errors:        as ferry_copy_async.
 */
FERRY_API int32_t ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                                         const ferry_copy_options *options, struct CUstream_st *stream,
                                         ferry_ticket **ticket, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Tickets
 *
 * A ticket reports the progress of one call that enqueues: a copy, a batch, the launch of a prepared batch, or a fill.
 * ferry_ticket_create makes a ticket for all work on a stream up to some point. Only copies of files can be cancelled
 * (ferry_file.h): the driver has all of any other copy when the call returns.
 * ------------------------------------------------------------------------------------------------------------ */

/* The progress of the work of a ticket. */
typedef struct ferry_ticket_info {
    uint32_t struct_size;
    int32_t done;         /* 1: the work has ended, with success or not */
    int32_t status;       /* of the work. 0: in flight, or ended with success; else what ended it */
    int32_t route;        /* FERRY_ROUTE_* that a single copy took, see ferry_copy_explain_async; else 0 */
    uint64_t bytes_done;  /* bytes that have arrived. Before the end, only staged copies and files have a number */
    uint64_t bytes_total; /* of the copy, the batch or the fill. 0: a stream */
    uint64_t tag;         /* ferry_copy_options.tag; 0: a stream */
    uint64_t file_offset; /* bytes before the first that was not transferred; 0 unless status is FERRY_ERROR_FILE */
    int32_t file_error;   /* number of the error, FERRY_FILE_ENDED or FERRY_FILE_CANCELLED; 0: no error of a file */
    int32_t file_index;   /* index of the failed copy or piece in its batch; 0: the first, a single copy, no failure */
} ferry_ticket_info;

/*
 * Makes a ticket for the work enqueued on `stream` so far. Default streams as for ferry_stream_synchronize.
 *
 * Broadcasts and relays have a part of their work on other devices. If the context of one of these dies, bytes are
 * missing, but `stream` goes on and reports nothing. A ticket made while that work is in flight has the status.
 *
 * Blocking:      driver_lock.
 * Ownership:     *ticket is the caller's until ferry_ticket_release, which must come before ferry_close.
 * Errors:        FERRY_ERROR_CAPTURE on a stream that is being captured; FERRY_ERROR_OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_ticket_create(ferry_instance *instance, struct CUstream_st *stream, ferry_ticket **ticket,
                                      ferry_error_info *error);

/*
 * Fills `info`. A staged copy is done when its last byte has arrived, which may be a moment before its stream
 * continues. The call also detects a dead context. For a staged copy, it does so at the latest in the first query that
 * finds no new bytes since the previous query.
 *
 * After a context has died, ferry's threads may still access the host memory of a staged copy, each until the end of
 * its chunk. The copy's ticket is done, and ferry_ticket_wait returns, only after the last of them has left: then the
 * memory may be freed. A batch, a copy without a ticket and a copy of memory that is registered in part have no such
 * ticket. Their memory may be freed after ferry_close has returned, or after ferry_staging_info.busy_threads was 0 once
 * a call has returned the status of the dead context.
 *
 * Thread-safety: safe, but not beside ferry_ticket_release of the same ticket.
 * Errors:        info->status is the copy's own result; a copy that failed is no error of this call. A ticket that was
 *                not found done before its context was destroyed has the driver's CUDA_ERROR_CONTEXT_IS_DESTROYED.
 */
FERRY_API int32_t ferry_ticket_get_info(ferry_ticket *ticket, ferry_ticket_info *info, ferry_error_info *error);

#define FERRY_NO_TIMEOUT (-1) /* wait without a limit */

/*
 * Waits until the copy is done, and returns its status. The calling thread helps with staged copies meanwhile. After
 * `timeout_ns` nanoseconds the call returns FERRY_ERROR_NOT_READY; the copy continues, and the ticket can be waited for
 * again. A time-out of 0 queries the ticket once. FERRY_NO_TIMEOUT is the only negative time-out.
 *
 * Values:        `timeout_ns`: nanoseconds; 0: one query; FERRY_NO_TIMEOUT: no limit.
 * Thread-safety: as ferry_ticket_get_info.
 * Blocking:      stream. The call returns when the copy is done, its context has died, or the time-out is over. The
 *                call may return a millisecond after the end of the time-out, or later while the calling thread, which
 *                helps, waits for a page of the program's memory.
 * Ownership:     the ticket stays the caller's.
 * Errors:        the status that ended the copy, which may come from earlier work that failed;
 *                FERRY_ERROR_INVALID_ARGUMENT for NULL; FERRY_ERROR_NOT_READY after the time-out. For the copy's own
 *                status alone see ferry_ticket_info.status.
 */
FERRY_API int32_t ferry_ticket_wait(ferry_ticket *ticket, int64_t timeout_ns, ferry_error_info *error);

/*
 * Waits until the work of at least one of `count` tickets has ended, and stores the index of that ticket in *index: the
 * lowest index if several are done. The call succeeds also if that work has failed: ferry_ticket_get_info and
 * ferry_ticket_wait return its status. The calling thread helps with staged copies meanwhile. The tickets may belong to
 * several instances, and a ticket may occur more than once. A `count` of 0 is an error.
 *
 * Values:        `tickets`: `count` elements; `timeout_ns`: nanoseconds; 0: one query; FERRY_NO_TIMEOUT: no limit.
 * Thread-safety: safe, but not beside ferry_ticket_release of one of the tickets.
 * Blocking:      stream, as ferry_ticket_wait. Without a time-out the call may also return up to 1 ms after the work
 *                has ended.
 * Errors:        FERRY_ERROR_NOT_READY after the time-out; _INVALID_ARGUMENT names the first NULL ticket by its index.
 *                No ticket changes.
 */
FERRY_API int32_t ferry_ticket_wait_any(ferry_ticket *const *tickets, uint64_t count, int64_t timeout_ns,
                                        uint64_t *index, ferry_error_info *error);

/*
 * Makes later work on `stream` wait for the work of the ticket, on any device; the host does not wait. Work on `stream`
 * continues after a copy that failed: the ticket has its status. The ticket may be released immediately. Default
 * streams as for ferry_stream_synchronize.
 *
 * Thread-safety: as ferry_ticket_get_info.
 * Blocking:      driver_lock.
 * Errors:        FERRY_ERROR_CAPTURE on a stream that is being captured: the work is not part of the graph. The driver's
 *                CUDA_ERROR_CONTEXT_IS_DESTROYED if the ticket's context has been destroyed.
 */
FERRY_API int32_t ferry_ticket_wait_async(ferry_ticket *ticket, struct CUstream_st *stream, ferry_error_info *error);

/*
 * Releases a ticket, at any time; the copy continues.
 *
 * NULL:          `ticket`.
 * Thread-safety: not beside another call on the same ticket.
 * Blocking:      driver_lock.
 * Ownership:     the ticket is gone; its work continues.
 */
FERRY_API int32_t ferry_ticket_release(ferry_ticket *ticket, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Batches
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * Makes `count` copies of any places and shapes, each as ferry_copy would. The copies have no order among themselves.
 * Their sources may overlap. No destination may overlap another copy's source or destination: the bytes of both copies'
 * destinations are then undefined, but no others change. FERRY_COPY_CHECK_OVERLAP looks for overlap by sorting all
 * rows, for some hundred nanoseconds each. All copies are checked before any is made. A copy that continues the one
 * before at both ends is merged with it. Width 0 is fine, and so is count 0; `copies` may then be NULL.
 *
 * A copy may leave the allocation that it begins in only into adjacent memory of the same device, which full checks
 * refuse too, and out of a registration of host memory. The context is found as for ferry_copy, for the first copy that
 * has a device.
 *
 * A piece is a contiguous copy of linear memory. Any other copy is a box. Pieces are planned together, and so are
 * boxes: all boxes out of arrays that kernels read (FERRY_ARRAY_SURFACE) use one launch if that is faster. The driver
 * makes copies into arrays. Between pageable memory and the context's device, pieces are staged together with boxes of
 * at most 16384 rows: in one launch for each direction, or in several launches above 1 GiB.
 *
 * Some options change this. URGENT pieces are staged together on an idle stream too, without a prediction. There is one
 * exception: if no piece from pageable to device memory is larger than 64 KiB, ferry chooses as for NORMAL, because the
 * driver sends the bytes of such pieces past the queues. Each box has a call or launch of its own with a forced route,
 * URGENT, CALL, NO_KERNELS, MULTILINK, DESTINATION_WRITTEN or max_sms. With NO_KERNELS, with the route DRIVER, and if
 * only one piece or box of a direction has pageable memory, ferry_copy_async's rules apply to each pageable copy.
 *
 * Pieces with the same source of 4 MiB or more (of pinned memory, 256 KiB) that go to several devices are a broadcast,
 * which runs on ferry's own streams. Devices with access to each other's memory, proven by ferry_peer_enable or
 * ferry_peer_probe, pass chunks on to each other (docs/devices.md). If the context of one dies meanwhile, the call makes
 * the broadcast again without it, and returns its status and the index of its copy. With ferry_options.submit this call
 * makes no broadcasts of pageable memory: the calling thread helps to stage each copy instead.
 *
 * NULL:          `copies`, `options`.
 * Values:        `copies`: `count` elements.
 * Blocking:      stream. The call returns when all copies are complete.
 * Ownership:     `copies` is read before return. Working memory is kept for the next batch, until ferry_close.
 * Errors:        as ferry_copy, with the copy's `index`; nothing was copied. _OVERLAP between two copies names the
 *                later in `index`, with FERRY_NUMBERS_COPY, and the other in `limit`. An error in the options has no
 *                index. _OUT_OF_MEMORY. If the driver refuses a copy only on submission, the call waits for what it
 *                has enqueued, and enqueues no more. Each other copy was then made whole or not at all, except in
 *                broadcasts and in copies that take several calls or launches; `error` does not say which were made.
 */
FERRY_API int32_t ferry_copy_batch(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                   const ferry_copy_options *options, ferry_error_info *error);

/*
 * Enqueues a batch on `stream`, as for ferry_copy_async: all of it starts after earlier work there, and is complete
 * for later work.
 *
 * NULL:          `copies`, `options`, `ticket`.
 * Values:        `copies`: `count` elements.
 * Blocking:      stream, in these cases. Otherwise as ferry_copy_async. The call waits for copies that wait in
 *                ferry_copy_async too; for pieces that are staged together, with FERRY_SOURCE_ORDER_CALL until their
 *                sources have been read, and with FERRY_COPY_DESTINATION_WRITTEN until their destinations are complete;
 *                for pieces that the driver copies one by one because kernels of others fill the device; and for the
 *                stream if the driver cannot make an event for a table of pieces.
 * Ownership:     `copies` is read before return. The memory must stay valid until the batch has completed on the
 *                stream, as for ferry_copy_async. *ticket as for ferry_copy_async.
 * Errors:        as ferry_copy_batch and ferry_copy_async; nothing was enqueued, except the parts before a part that
 *                the driver refuses or that fails with FERRY_ERROR_LIMIT or _OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_copy_batch_async(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                         const ferry_copy_options *options, struct CUstream_st *stream,
                                         ferry_ticket **ticket, ferry_error_info *error);

/* A piece: one contiguous copy of linear memory, as ferry_copy_bytes makes it. `destination` and `source` must live
 * until the work that takes the piece is complete. */
typedef struct ferry_piece {
    uint64_t destination; /* an address of kind ANY */
    uint64_t source;      /* an address of kind ANY, or an offset in ferry_piece_list.source_file */
    uint64_t size;        /* bytes. If it is 0, the addresses are not checked */
} ferry_piece;

/*
 * The pieces of a batch: an array of ferry_piece, three arrays, or three fields of the program's own structs.
 * ferry_piece_list_set sets the first form, and ferry_piece_list_set_arrays sets the second form. For the third form,
 * set the fields: the three pointers point to the fields of the first struct, and the stride is the size of a struct.
 * A call reads the elements before it returns. An error in the list names FERRY_SIDE_PIECES and the field.
 *
 * destinations, sources, sizes
 *               The destination, the source and the size of the first piece, at multiples of 8. If `count` is 0, the
 *               three pointers are not checked. Two of the pointers must not share an element. A list of structs
 *               without a stride has such pointers.
 * stride        The number of bytes from one destination, source or size to the next: a multiple of 8. 0: 8, the stride
 *               of three arrays.
 */
typedef struct ferry_piece_list {
    uint32_t struct_size;
    uint32_t reserved;            /* must be zero */
    uint64_t count;               /* the number of pieces; may be 0 */
    const uint64_t *destinations; /* `count` elements, at intervals of `stride` bytes; NULL: no pieces */
    const uint64_t *sources;      /* `count` elements, at intervals of `stride` bytes; NULL: no pieces */
    const uint64_t *sizes;        /* `count` elements, at intervals of `stride` bytes; NULL: no pieces */
    uint64_t stride;
    ferry_file *source_file; /* the sources are offsets in this file; NULL: they are addresses */
} ferry_piece_list;

/*
 * Sets a list of `count` pieces in an array. Overwrites the whole list and sets its struct_size to 56, the size of the
 * struct in this version. Later versions do not write more bytes. A NULL list is ignored.
 *
 * NULL:          `list`, `pieces`.
 * Values:        `pieces`: `count` elements.
 * Ownership:     `pieces` must live until the call that takes the list returns.
 */
FERRY_API void ferry_piece_list_set(ferry_piece_list *list, const ferry_piece *pieces, uint64_t count);

/*
 * Sets a list of `count` pieces in three arrays: sizes[i] bytes from sources[i] to destinations[i]. Otherwise as
 * ferry_piece_list_set.
 *
 * NULL:          `list`, `destinations`, `sources`, `sizes`.
 * Values:        `destinations`, `sources`, `sizes`: `count` elements.
 * Ownership:     `destinations`, `sources` and `sizes` must live until the call that takes the list returns.
 */
FERRY_API void ferry_piece_list_set_arrays(ferry_piece_list *list, const uint64_t *destinations,
                                           const uint64_t *sources, const uint64_t *sizes, uint64_t count);

/*
 * Copies a batch of pieces. The fastest form for thousands of small pieces. The rule of ferry_copy_batch about overlap
 * holds for pieces too.
 *
 * NULL:          `options`.
 * Blocking:      stream. The call returns when all pieces are complete.
 * Errors:        as ferry_copy_batch. For the list itself, with FERRY_SIDE_PIECES: _INVALID_ARGUMENT with the field
 *                DESTINATIONS, SOURCES or SIZES for a NULL pointer, and with STRIDE if two pointers share an element;
 *                _ALIGNMENT for a pointer or a stride that is no multiple of 8; _OVERFLOW with STRIDE or COUNT if the
 *                list passes the end of the address space; _RESERVED. With a source_file, _OUT_OF_BOUNDS for a piece
 *                past the end of the file; _HANDLE and _FILE (see ferry_file.h).
 */
FERRY_API int32_t ferry_copy_pieces(ferry_instance *instance, const ferry_piece_list *pieces,
                                    const ferry_copy_options *options, ferry_error_info *error);

/*
 * ferry_copy_pieces on a stream, as ferry_copy_batch_async.
 *
 * NULL:          `options`, `ticket`.
 * Blocking:      stream, as ferry_copy_batch_async.
 * Ownership:     the elements of the list are read before return; the memory and *ticket as for ferry_copy_batch_async.
 * Errors:        as ferry_copy_batch_async; for the list as ferry_copy_pieces.
 */
FERRY_API int32_t ferry_copy_pieces_async(ferry_instance *instance, const ferry_piece_list *pieces,
                                          const ferry_copy_options *options, struct CUstream_st *stream,
                                          ferry_ticket **ticket, ferry_error_info *error);

/* A batch that is checked and planned once, then launched any number of times. Opaque. */
typedef struct ferry_prepared ferry_prepared;

/*
 * Prepares a batch for streams of the device of `stream`, whose context is found as for ferry_copy_batch_async. The
 * plan keeps the current profile and the options, with all of their fields. `count` 0 is fine.
 *
 * NULL:          `copies`, `options`.
 * Values:        `copies`: `count` elements.
 * Blocking:      device. If kernels read a table of the pieces, cuMemAlloc may wait for the device, and the call waits
 *                while the table is sent to the device.
 * Ownership:     *prepared is the caller's until ferry_prepared_destroy or ferry_prepared_destroy_deferred, which must
 *                come before ferry_close. `copies` is read before return. The memory must live until the last launch is
 *                complete. Until then, the context must live too, and the memory must stay of the same kind.
 * Errors:        as ferry_copy_batch, including _ROUTE with the index of a copy that the options force onto a route
 *                that cannot take it. FERRY_ERROR_LIMIT if the table exceeds a budget: ferry_options.max_device_bytes,
 *                or max_pinned_bytes for the memory through which it is sent.
 */
FERRY_API int32_t ferry_prepared_create(ferry_instance *instance, const ferry_copy_desc *copies, uint64_t count,
                                        const ferry_copy_options *options, struct CUstream_st *stream,
                                        ferry_prepared **prepared, ferry_error_info *error);

/*
 * Prepares a batch of pieces, as ferry_prepared_create. With FERRY_COPY_UPDATABLE their addresses can be changed, and
 * pieces are not merged.
 *
 * NULL:          `options`.
 * Blocking:      device, as ferry_prepared_create.
 * Ownership:     as ferry_prepared_create; the elements of the list are read before return.
 * Errors:        as ferry_prepared_create; for the list as ferry_copy_pieces; if updatable, FERRY_ERROR_OUT_OF_BOUNDS
 *                for a piece that is not in one allocation at either end: FERRY_SIDE_DESCRIPTOR and
 *                FERRY_FIELD_ADDRESS, without value and limit.
 */
FERRY_API int32_t ferry_prepared_create_pieces(ferry_instance *instance, const ferry_piece_list *pieces,
                                               const ferry_copy_options *options, struct CUstream_st *stream,
                                               ferry_prepared **prepared, ferry_error_info *error);

/*
 * Enqueues a prepared batch on `stream`, a stream of the device that it was prepared for, as ferry_copy_batch_async
 * would. The launch uses only the tag and the flag NO_WAIT of `options`; NULL means those that the batch was prepared
 * with. The other fields are checked but not used. A default stream belongs to the current context, else to ferry's
 * context for the device of the batch. On a stream that is being captured the batch becomes part of the graph and must
 * live as long as the graph may run. In another context of the device, which does not see all memory of the first, the
 * driver makes the copies instead of kernels.
 *
 * NULL:          `options`, `ticket`.
 * Thread-safety: safe, but not beside ferry_prepared_set_addresses and ferry_prepared_destroy on the same batch.
 * Blocking:      stream, as ferry_copy_batch_async.
 * Ownership:     as ferry_copy_batch_async.
 * Errors:        FERRY_ERROR_DEVICE for a stream of another device; for an updatable batch _UNSUPPORTED in another
 *                context, and _CAPTURE if the graph would hold parts of it by their addresses. With a ticket as
 *                ferry_copy_async. `error` has no index.
 */
FERRY_API int32_t ferry_prepared_launch(ferry_prepared *prepared, const ferry_copy_options *options,
                                        struct CUstream_st *stream, ferry_ticket **ticket, ferry_error_info *error);

/*
 * Gives all pieces of an updatable batch new addresses. `pieces` has as many pieces as the batch, including pieces of
 * size 0, whose addresses are not used. If `destinations` or `sources` of the list is NULL, the batch keeps its
 * destinations or its sources. The sizes of the list are not read. The change is ordered on `stream`: earlier launches
 * use the old addresses; later launches, also replays of graphs, use the new ones. The caller orders launches on other
 * streams. Each piece keeps its size, its kind of memory (pageable or pinned host memory, memory of the device or of a
 * peer), and its destination's remainder modulo 16. The new addresses are checked as before, with the options and for
 * the context that the batch was prepared with.
 *
 * Thread-safety: safe, but not beside another call on the same prepared batch: ferry_prepared_launch,
 *                ferry_prepared_destroy or this one. Launches of a graph that holds the batch may run beside it: only
 *                streams order them.
 * Blocking:      first_use. The call may pin memory for the table.
 * Ownership:     the elements of the list are read before return. The memory must live until the last launch is
 *                complete.
 * Errors:        as ferry_prepared_create_pieces, with the index; for a forbidden change FERRY_ERROR_OTHER_KIND,
 *                or _ALIGNMENT, with the new address as `value`. _INVALID_ARGUMENT with FERRY_SIDE_PIECES and
 *                FERRY_FIELD_COUNT for a list of another length. _UNSUPPORTED with FERRY_FIELD_FLAGS and
 *                FERRY_NUMBERS_LACKS if the batch is not updatable; _DEVICE for a stream of another device; _CAPTURE on
 *                a stream that is being captured. The addresses are unchanged after an error.
 */
FERRY_API int32_t ferry_prepared_set_addresses(ferry_prepared *prepared, const ferry_piece_list *pieces,
                                               struct CUstream_st *stream, ferry_error_info *error);

/*
 * Destroys a prepared batch. Launches of it may be in flight; graphs that hold it may not run any more.
 *
 * NULL:          `prepared`.
 * Thread-safety: not beside another call on the same batch, ferry_prepared_launch and
 *                ferry_prepared_set_addresses.
 * Blocking:      device, if the batch has a table on the device: the call waits for running work, as cuMemFree does.
 *                Otherwise driver_lock.
 * Ownership:     the batch is gone, whatever is returned, except in the child of a fork.
 * Errors:        the driver's own may be errors of earlier work.
 */
FERRY_API int32_t ferry_prepared_destroy(ferry_prepared *prepared, ferry_error_info *error);

/*
 * Destroys a prepared batch in the order of `stream`, and waits for no work. The instance keeps the batch's table on
 * the device until the earlier work on `stream` has completed, as ferry_device_free_deferred keeps memory. The stream
 * must come after all launches of the batch; it may be destroyed immediately. Graphs that hold the batch may run only
 * before that point. `stream` is not read if the batch has no table. Default streams belong to the batch's device.
 *
 * NULL:          `prepared`.
 * Thread-safety: as ferry_prepared_destroy.
 * Blocking:      driver_lock.
 * Ownership:     the batch is gone.
 * Errors:        FERRY_ERROR_CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the batch is
 *                still the caller's.
 */
FERRY_API int32_t ferry_prepared_destroy_deferred(ferry_prepared *prepared, struct CUstream_st *stream,
                                                  ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Fills
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * One fill: a pattern of 1, 2, 4, 8 or 16 bytes, in memory order, repeated over a box of device, managed or pinned
 * host memory. The address with its origin and the width must be multiples of the pattern's size, and so must the row
 * pitch if there is more than one row. A row pitch other than 0 is at least x + width. Height 0 and depth 0 count as
 * 1. Width 0 fills nothing and succeeds if kind, device, pattern_size and reserved fields are valid.
 *
 * The driver itself fills patterns of up to 4 bytes over equally spaced rows. Two kinds of fill need one of ferry's
 * kernels: a pattern of 8 or 16 bytes that does not repeat every 4; and slices with gaps between them, unless the rows
 * within a slice are tight or a slice has one row. Such a fill is refused if no kernel can run or reach the memory.
 */
typedef struct ferry_fill_desc {
    ferry_place destination;
    uint64_t width; /* bytes */
    uint64_t height;
    uint64_t depth;
    uint8_t pattern[16];   /* its first pattern_size bytes are read */
    uint32_t pattern_size; /* 1, 2, 4, 8 or 16 */
    uint32_t reserved0;    /* must be zero, like reserved */
    uint64_t reserved[6];
} ferry_fill_desc;

/*
 * Sets a descriptor from a place, which may be the one inside *fill, an extent and `pattern_size` bytes of pattern (at
 * most 16 are taken). ferry_fill checks the values. A NULL place leaves the destination all zero; a NULL pattern means
 * zero bytes. A NULL fill is ignored.
 *
 * NULL:          `fill`, `destination`, `pattern`.
 * Values:        `pattern`: `pattern_size` bytes.
 */
FERRY_API void ferry_fill_desc_init(ferry_fill_desc *fill, const ferry_place *destination, uint64_t width,
                                    uint64_t height, uint64_t depth, const void *pattern, uint32_t pattern_size);

/*
 * Fills, and returns when the bytes are there. The fill is ordered like a ferry_copy. The context is the current one if
 * it belongs to the memory's device, else ferry's for that device; for pinned and managed memory the current one, else
 * device 0's. Memory that the driver fills only in the memory's own context, such as another process's, uses that
 * context.
 *
 * NULL:          `options`.
 * Blocking:      stream. The call returns when the fill is complete.
 * Errors:        FERRY_ERROR_KIND, _PAGEABLE, _DEVICE, _ADDRESS, _PITCH, _OVERFLOW, _OUT_OF_BOUNDS, _ALIGNMENT, _FLAGS,
 *                _RESERVED name the field in `error`, and nothing was filled. If the driver refuses a part of a split
 *                fill, the parts before it were filled. _INVALID_ARGUMENT for a pattern_size that is no power of two up
 *                to 16; _UNSUPPORTED for kinds ARRAY, PINNED and FILE; _ROUTE if the route KERNEL is forced and no
 *                kernel can serve. A fill that needs a kernel (see ferry_fill_desc) is _UNSUPPORTED with the field
 *                PATTERN_SIZE or DEPTH if the options of the call, the options of the instance or the driver exclude
 *                kernels, if the box leaves an allocation or registration, or if kernels cannot reach the memory.
 *                Errors in the options are as for ferry_copy.
 */
FERRY_API int32_t ferry_fill(ferry_instance *instance, const ferry_fill_desc *fill, const ferry_copy_options *options,
                             ferry_error_info *error);

/*
 * Enqueues a fill on `stream`, as ferry_copy_async does a copy. The stream must be on the memory's device, or on one
 * with peer access to it; for pinned and managed memory any stream will do. The NULL, legacy and per-thread streams
 * belong to the context found as for ferry_fill. No kernel fills memory that a capture has allocated, because the
 * driver does not know this memory.
 *
 * NULL:          `options`, `ticket`.
 * Blocking:      first_use. The first fill by a kernel in a context loads the kernel (ferry_options.kernels).
 * Ownership:     `fill` is read before return. The memory must live until the fill is complete; *ticket as for
 *                ferry_copy_async.
 * Errors:        as ferry_fill; nothing was enqueued except the parts of a split fill before the part that fails.
 *                FERRY_ERROR_DEVICE also for a stream that cannot reach the memory; _NO_CONTEXT for another process's
 *                memory on a stream of a context other than the one that opened it. With a ticket as ferry_copy_async.
 */
FERRY_API int32_t ferry_fill_async(ferry_instance *instance, const ferry_fill_desc *fill,
                                   const ferry_copy_options *options, struct CUstream_st *stream, ferry_ticket **ticket,
                                   ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Explanations
 * ------------------------------------------------------------------------------------------------------------ */

/* Why a route cannot take a copy. */
#define FERRY_OBSTACLE_NONE 0
#define FERRY_OBSTACLE_NO_ROUTE 1      /* the route that the options force serves single copies, but no pieces */
#define FERRY_OBSTACLE_FORBIDDEN 2     /* the options exclude kernels */
#define FERRY_OBSTACLE_NOT_LOADED 3    /* the driver refused ferry's kernels, or the options exclude them */
#define FERRY_OBSTACLE_HOST_TO_HOST 4  /* both ends are host memory */
#define FERRY_OBSTACLE_PAGEABLE 5      /* an end is pageable or host pool memory that the device does not reach */
#define FERRY_OBSTACLE_MANAGED 6       /* an end is managed memory: kernels if forced or URGENT, staging never */
#define FERRY_OBSTACLE_ARRAY 7         /* an end is an array that kernels do not take: see ferry_array_create */
#define FERRY_OBSTACLE_NO_ACCESS 8     /* the copy's context has no access to an end */
#define FERRY_OBSTACLE_BEYOND 9        /* an end reaches past its allocation or registration */
#define FERRY_OBSTACLE_READ_ONLY 10    /* the destination is memory that the device may only read */
#define FERRY_OBSTACLE_NOT_PAGEABLE 11 /* no end is pageable memory, and no narrow rows need staging */
#define FERRY_OBSTACLE_NO_STAGING                                                                                      \
    12 /* the options exclude staging, it has no threads or pinned memory, or the host memory cannot be read */
#define FERRY_OBSTACLE_OTHER_DEVICE 13 /* an end is on another device than the stream */
#define FERRY_OBSTACLE_DIRECT 14       /* the device takes pageable memory itself (pageable_uses_host_page_tables) */
#define FERRY_OBSTACLE_NOT_BETWEEN_DEVICES 15 /* the ends are not on two devices */
#define FERRY_OBSTACLE_DIRECT_ACCESS 16       /* one of the two devices has access to the memory of the other */
#define FERRY_OBSTACLE_NO_HELPERS 17          /* ferry_multilink_set names none for this device, in this context */
#define FERRY_OBSTACLE_NOT_CUT 18             /* rows below 64 KiB, or addresses or pitches that differ modulo 16 */
#define FERRY_OBSTACLE_SMALL 19               /* too small to gain by it */
#define FERRY_OBSTACLE_CAPTURED 20            /* the copy becomes part of a graph, where it is the driver's */
#define FERRY_OBSTACLE_WAITS 21               /* FERRY_COPY_NO_WAIT: the call would wait for work of a stream */
#define FERRY_OBSTACLE_NOT_PREPARED 22        /* the same: for first-use work (see ferry_staging_prepare) */
#define FERRY_OBSTACLE_BUSY 23                /* the same: until other copies have completed; try again later */
#define FERRY_OBSTACLE_FILE 24                /* an end is a file, which only staging serves */

/*
 * Returns a text such as "pageable memory"; "?" for an unknown number.
 *
 * Values:        `obstacle`: FERRY_OBSTACLE_*.
 */
FERRY_API const char *ferry_obstacle_text(int32_t obstacle);

/* Why a copy takes its route: ferry_explanation.reason. */
#define FERRY_REASON_NONE 0         /* there is nothing to copy */
#define FERRY_REASON_LINE 1         /* one line without pageable memory: the driver is as fast */
#define FERRY_REASON_ONLY 2         /* no other route can take it: see the obstacles */
#define FERRY_REASON_PREDICTED 3    /* it is predicted to be the fastest, from the profile in force */
#define FERRY_REASON_NO_WAIT 4      /* the driver would make the caller wait */
#define FERRY_REASON_FORCED 5       /* the options force it */
#define FERRY_REASON_URGENT 6       /* FERRY_PRIORITY_URGENT */
#define FERRY_REASON_SOURCE_ORDER 7 /* the source is read in the call, as its order requires or permits */
#define FERRY_REASON_MULTILINK 8    /* FERRY_COPY_MULTILINK */

/* Where predicted times come from: ferry_explanation.profile. */
#define FERRY_PROFILE_NONE 0
#define FERRY_PROFILE_BUILT_IN 1 /* measured on other devices of this kind */
#define FERRY_PROFILE_CAUTIOUS 2 /* of no device: ferry_device_calibrate measures this one */
#define FERRY_PROFILE_MEASURED 3 /* by a calibration, now or before ferry_profile_load */

/* What the caller waits for. */
#define FERRY_BLOCKS_NO 0           /* nothing: the call enqueues and returns */
#define FERRY_BLOCKS_UNTIL_STAGED 1 /* until pageable source memory has been read, and for earlier work on the stream */
#define FERRY_BLOCKS_UNTIL_DONE 2   /* until the copy is complete */

/* What a copy or a fill would do. For a fill, predicted times are 0, and of the obstacles only kernel_obstacle counts,
 * which is not looked for where the reason is LINE. */
typedef struct ferry_explanation {
    uint32_t struct_size;
    int32_t route;              /* FERRY_ROUTE_* */
    int32_t blocks;             /* FERRY_BLOCKS_* */
    int32_t synchronises;       /* 1: ferry itself waits: after the driver's call, if the call returns before the copy
                                 * is complete; before it, if the call would read a pageable source too early */
    char driver_call[32];       /* such as "cuMemcpy3DAsync" or "cuLaunchKernel"; empty for FERRY_ROUTE_NONE */
    int32_t context_device;     /* of the context that the copy runs in; -1: FERRY_ROUTE_NONE */
    int32_t destination_memory; /* FERRY_MEMORY_*; without meaning for FERRY_ROUTE_NONE */
    int32_t destination_device; /* of device or array memory; -1: other memory */
    int32_t source_memory;      /* FERRY_MEMORY_*, likewise; NONE for a fill */
    int32_t source_device;
    uint32_t calls; /* of the driver: 1, or more where host memory is registered in pieces or in part; 0: none */
    uint64_t width; /* the extent as the call gets it: bytes, rows, slices; tight dimensions have been folded */
    uint64_t height;
    uint64_t depth;
    uint64_t driver_ns;      /* predicted for the driver route, from the call until the bytes are there; 0: not known */
    uint64_t kernel_ns;      /* likewise for a kernel, which is used if it is 5 % faster: see FERRY_ROUTE_AUTO */
    int32_t kernel_obstacle; /* FERRY_OBSTACLE_*: why a kernel does not take it, and nothing was predicted for one */
    uint32_t max_sms;        /* the maximum number of SMs that the route keeps busy; 0: the driver's choice */
    uint64_t staged_ns;      /* as driver_ns, for FERRY_ROUTE_STAGED */
    int32_t staged_obstacle; /* FERRY_OBSTACLE_*: why that cannot take it */
    uint32_t threads; /* the maximum number of CPU threads that the route keeps busy, a waiting caller included */
    uint64_t staging_delay_ns;  /* in staged_ns: the recent delay of staged copies because other programs kept the
                                * processors busy or other kernels kept the device busy; 0: no delay */
    uint64_t relay_ns;          /* as driver_ns, for FERRY_ROUTE_RELAYED */
    int32_t relay_obstacle;     /* FERRY_OBSTACLE_*: why that cannot take it, or need not. Below 2 MiB, the relay route
                                * is considered only with the route RELAYED */
    uint32_t links;             /* for FERRY_ROUTE_MULTILINK, and staged over several: the host links taken; else 0 */
    uint64_t multilink_ns;      /* as driver_ns, for FERRY_ROUTE_MULTILINK: by measured or equal links */
    int32_t multilink_obstacle; /* FERRY_OBSTACLE_*: why that cannot take it; FORBIDDEN: no MULTILINK */
    int32_t reason;             /* FERRY_REASON_*: why the copy, or one of its parts, takes this route */
    int32_t profile;            /* FERRY_PROFILE_*: where the predicted times come from */
    uint32_t helper_sms;        /* with several links: the maximum number of SMs on each helper, and max_sms on the
                                 * device; else 0 */
    uint64_t engine_bytes;      /* for FERRY_ROUTE_MULTILINK: of the copy, what the device's copy engine takes. Kernels
                                 * on all the devices claim the rest chunk by chunk */
} ferry_explanation;

/*
 * Reports what ferry_copy would do with `copy`, without doing it. Fills `explanation`. The explanation does not cover
 * whether a copy between two devices uses the link between them: that depends on peer access.
 *
 * NULL:          `options`.
 * Blocking:      first_use. If a kernel or staging may be faster, the first call in a context loads the kernels, as
 *                ferry_copy does.
 * Errors:        as ferry_copy.
 */
FERRY_API int32_t ferry_copy_explain(ferry_instance *instance, const ferry_copy_desc *copy,
                                     const ferry_copy_options *options, ferry_explanation *explanation,
                                     ferry_error_info *error);

/*
 * Reports what ferry_copy_async would do, as ferry_copy_explain.
 *
 * The explanation describes a copy that is enqueued at this moment. A later copy of the same description takes another
 * route only if something has changed that the choice depends on: the earlier work on the stream has completed, or
 * other work has been enqueued there; ferry has measured another staging delay or has another profile; the access
 * between devices has changed; or the copy finds no free slot, stream or pinned memory for its route, and the driver
 * makes it. ferry_ticket_info.route is the route that the copy took.
 *
 * NULL:          `options`.
 * Blocking:      first_use, as ferry_copy_explain. For a copy that is going to be staged, the first call also starts
 *                threads and pins memory, as ferry_copy_async does.
 * Errors:        as ferry_copy_async.
 */
FERRY_API int32_t ferry_copy_explain_async(ferry_instance *instance, const ferry_copy_desc *copy,
                                           const ferry_copy_options *options, struct CUstream_st *stream,
                                           ferry_explanation *explanation, ferry_error_info *error);

/*
 * Reports what ferry_fill would do with `fill`, without doing it. Fills `explanation`. A fill that the driver refuses
 * in the call's context, and that ferry_fill then makes in the memory's own, is explained as in the call's.
 *
 * NULL:          `options`.
 * Blocking:      first_use, as ferry_copy_explain.
 * Errors:        as ferry_fill, except for errors of the driver.
 */
FERRY_API int32_t ferry_fill_explain(ferry_instance *instance, const ferry_fill_desc *fill,
                                     const ferry_copy_options *options, ferry_explanation *explanation,
                                     ferry_error_info *error);

/*
 * Reports what ferry_fill_async would do, as ferry_fill_explain.
 *
 * NULL:          `options`.
 * Blocking:      first_use, as ferry_copy_explain.
 * Errors:        as ferry_fill_async, except for errors of the driver: _DEVICE for a stream that cannot reach the memory
 *                and _NO_CONTEXT are not found.
 */
FERRY_API int32_t ferry_fill_explain_async(ferry_instance *instance, const ferry_fill_desc *fill,
                                           const ferry_copy_options *options, struct CUstream_st *stream,
                                           ferry_explanation *explanation, ferry_error_info *error);

/*
 * Writes one readable line about `explanation` to `buffer`, such as "driver route: cuMemcpy3DAsync, pinned to device 0,
 * 4096 B x 3 rows x 1 slices; does not block; 5.8 us by the driver, 11.2 us by a kernel; because it is predicted to be
 * the fastest (built-in profile)" or "...; no kernel: pageable memory", cut to `size` bytes with its ending zero.
 * Returns the length of the whole line without the zero, or 0 for a NULL explanation or a bad struct_size. `buffer` may
 * be NULL when size is 0.
 *
 * NULL:          `explanation`, `buffer`.
 * Values:        `buffer`: `size` bytes.
 */
FERRY_API uint64_t ferry_explanation_format(const ferry_explanation *explanation, char *buffer, uint64_t size);

/*
 * The copies of a batch that go one way. Copies of width 0 do not count, merged neighbours count as one, and a copy
 * that is cut at the end of an allocation or registration counts as its parts. It never grows: later versions give
 * `reserved` a name.
 */
typedef struct ferry_batch_share {
    uint64_t copies;
    uint64_t bytes;
    uint64_t predicted_ns; /* the sum for these copies, without earlier work on the stream; 0: not known for all */
    uint64_t reserved;
} ferry_batch_share;

/* What ferry would do with a batch. Set struct_size first. */
typedef struct ferry_batch_explanation {
    uint32_t struct_size;
    int32_t context_device;        /* the device of the context that the batch runs in; -1: nothing to copy */
    ferry_batch_share singles;     /* one by one, by any route: ferry_copy_explain_async reports the route */
    ferry_batch_share batch_calls; /* by cuMemcpyBatchAsync and cuMemcpy3DBatchAsync */
    ferry_batch_share kernels;     /* by kernels that copy many in one launch */
    ferry_batch_share staged;      /* together, between pageable memory and the device; rows of boxes count each */
    ferry_batch_share broadcasts;  /* lines with one source that go to several devices; bytes: each source once */
    uint32_t max_sms;              /* the maximum number of SMs that a launch of `kernels` or `staged` keeps busy */
    uint32_t threads; /* the maximum number of CPU threads that `staged` keeps busy, a waiting caller included */
    uint64_t staging_delay_ns; /* the recent staging delay that staged.predicted_ns includes */
    int32_t blocks;            /* FERRY_BLOCKS_*: the longest wait of a copy in the call. Broadcasts do not count */
    uint32_t reserved;         /* 0 */
} ferry_batch_explanation;

/*
 * Reports what ferry_copy_batch_async would do with a batch now, without doing it: how many copies go which way, and
 * the predicted times. Checks the batch as that call does, and fills `explanation`. With FERRY_COPY_UPDATABLE, reports
 * what a launch of a prepared batch on the stream would do: no pieces are merged, and there are no broadcasts.
 *
 * NULL:          `copies`, `options`.
 * Values:        `copies`: `count` elements.
 * Blocking:      first_use, as ferry_copy_explain_async.
 * Errors:        as ferry_copy_batch_async.
 */
FERRY_API int32_t ferry_copy_batch_explain_async(ferry_instance *instance, const ferry_copy_desc *copies,
                                                 uint64_t count, const ferry_copy_options *options,
                                                 struct CUstream_st *stream, ferry_batch_explanation *explanation,
                                                 ferry_error_info *error);

/*
 * Reports what ferry_copy_pieces_async would do, as ferry_copy_batch_explain_async.
 *
 * NULL:          `options`.
 * Blocking:      first_use, as ferry_copy_explain_async.
 * Errors:        as ferry_copy_pieces_async.
 */
FERRY_API int32_t ferry_copy_pieces_explain_async(ferry_instance *instance, const ferry_piece_list *pieces,
                                                  const ferry_copy_options *options, struct CUstream_st *stream,
                                                  ferry_batch_explanation *explanation, ferry_error_info *error);

/*
 * Writes one readable line about `explanation` to `buffer`, such as "1500 copies staged on 8 SMs and 8 threads,
 * 90.1 MB, 1900.0 us; 3 by a kernel on 8 SMs, 0.1 MB, 12.1 us", or "nothing to copy". The SMs are max_sms in both
 * parts, and a MB is 10^6 bytes. Size and return value as for ferry_explanation_format.
 *
 * NULL:          `explanation`, `buffer`.
 * Values:        `buffer`: `size` bytes.
 */
FERRY_API uint64_t ferry_batch_explanation_format(const ferry_batch_explanation *explanation, char *buffer,
                                                  uint64_t size);

/* ---------------------------------------------------------------------------------------------------------------
 * Details of errors
 * ------------------------------------------------------------------------------------------------------------ */

/* Which side of a descriptor an error is about. */
#define FERRY_SIDE_NONE 0
#define FERRY_SIDE_SOURCE 1
#define FERRY_SIDE_DESTINATION 2
#define FERRY_SIDE_EXTENT 3
#define FERRY_SIDE_DESCRIPTOR 4     /* the descriptor's own fields, such as its reserved fields */
#define FERRY_SIDE_OPTIONS 5        /* the options or the description that a call was given */
#define FERRY_SIDE_DRIVER_OPTIONS 6 /* ferry_options.driver_options, or the ferry_software_options of a call */
#define FERRY_SIDE_PIECES 7         /* the ferry_piece_list of a call */

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
#define FERRY_FIELD_DRIVER_OPTIONS 19
#define FERRY_FIELD_PATTERN_SIZE 20
#define FERRY_FIELD_NUMA 21
#define FERRY_FIELD_NUMA_NODE 22
#define FERRY_FIELD_THREADS 23
#define FERRY_FIELD_SIZE 24
#define FERRY_FIELD_LOCATION 25
#define FERRY_FIELD_INDEX 26
#define FERRY_FIELD_HANDLE_TYPES 27
#define FERRY_FIELD_HANDLE 28 /* the bytes of a ferry_ipc_handle */
#define FERRY_FIELD_OS_HANDLE 29
#define FERRY_FIELD_POOL 30
#define FERRY_FIELD_EVENT 31
#define FERRY_FIELD_REGISTER_CHUNK 32
#define FERRY_FIELD_VERSION 33 /* of a profile */
#define FERRY_FIELD_LINE 34    /* of a profile: its number is the value */
#define FERRY_FIELD_KERNELS 35
#define FERRY_FIELD_STAGING 36
#define FERRY_FIELD_STAGING_CPUS 37 /* staging_cpus or staging_cpu_count */
#define FERRY_FIELD_STAGING_PRIORITY 38
#define FERRY_FIELD_STAGING_BYTES 39
#define FERRY_FIELD_FORMAT 40   /* of an array */
#define FERRY_FIELD_CHANNELS 41 /* of an array */
#define FERRY_FIELD_HELPERS 42
#define FERRY_FIELD_TRACE_PHASES 43
#define FERRY_FIELD_STAGING_THREADS 44
#define FERRY_FIELD_STAGING_CPU_COUNT 45
#define FERRY_FIELD_STAGING_NUMA 46
#define FERRY_FIELD_STAGING_NUMA_NODE 47
#define FERRY_FIELD_LEVEL 48
#define FERRY_FIELD_PLANE 49
#define FERRY_FIELD_ACCESS 50
#define FERRY_FIELD_STREAM 51
#define FERRY_FIELD_CONTEXT 52
#define FERRY_FIELD_HANDLE_TYPE 53 /* of external memory or an external semaphore */
#define FERRY_FIELD_DEVICES 54     /* of ferry_software_options, as QUEUES and LINKS */
#define FERRY_FIELD_QUEUES 55
#define FERRY_FIELD_LINKS 56
#define FERRY_FIELD_COUNT 57
#define FERRY_FIELD_TIMEOUT 58 /* timeout_ns */
#define FERRY_FIELD_ROUTE 59   /* of ferry_copy_options, as PRIORITY, SOURCE_ORDER and MAX_SMS */
#define FERRY_FIELD_PRIORITY 60
#define FERRY_FIELD_SOURCE_ORDER 61
#define FERRY_FIELD_MAX_SMS 62
#define FERRY_FIELD_STAGING_NICENESS 63
#define FERRY_FIELD_FILE 64
#define FERRY_FIELD_DESTINATIONS 65 /* of ferry_piece_list, as SOURCES, SIZES, STRIDE and SOURCE_FILE */
#define FERRY_FIELD_SOURCES 66
#define FERRY_FIELD_SIZES 67
#define FERRY_FIELD_STRIDE 68
#define FERRY_FIELD_SOURCE_FILE 69
#define FERRY_FIELD_PEER 70
#define FERRY_FIELD_TICKET 71
#define FERRY_FIELD_PREPARED 72         /* a prepared batch */
#define FERRY_FIELD_MAX_PINNED_BYTES 73 /* of ferry_options, as MAX_DEVICE_BYTES and MAX_THREADS */
#define FERRY_FIELD_MAX_DEVICE_BYTES 74
#define FERRY_FIELD_MAX_THREADS 75
#define FERRY_FIELD_SUBMIT 76   /* of ferry_options */
#define FERRY_FIELD_INSTANCE 77 /* a parameter that is NULL, as the following fields */
#define FERRY_FIELD_COPY 78
#define FERRY_FIELD_COPIES 79
#define FERRY_FIELD_PIECES 80
#define FERRY_FIELD_FILL 81
#define FERRY_FIELD_DESC 82
#define FERRY_FIELD_TEXT 83
#define FERRY_FIELD_GRAPH 84
#define FERRY_FIELD_NODE 85
#define FERRY_FIELD_EXECUTABLE 86
#define FERRY_FIELD_RESULT 87 /* a parameter in which the call stores or fills something */
#define FERRY_FIELD_PATH 88
#define FERRY_FIELD_OFFSET 89   /* `address` of a place in a file, or a source of pieces in a file */
#define FERRY_FIELD_DIRECT 90   /* of ferry_file_options */
#define FERRY_FIELD_MAX_SIZE 91 /* of ferry_pinned_pool_options */
#define FERRY_FIELD_NESTS 92
#define FERRY_FIELD_AXES 93 /* of ferry_nest, as SKIPPED */
#define FERRY_FIELD_SKIPPED 94
#define FERRY_FIELD_INDICES 95 /* of ferry_axis, as the following fields */
#define FERRY_FIELD_INDEX_LIMIT 96
#define FERRY_FIELD_INDEX_TYPE 97
#define FERRY_FIELD_INDEX_MEMORY 98

/* What `index` of an error counts. */
#define FERRY_ITEM_NONE 0 /* index is 0 and means nothing */
#define FERRY_ITEM_COPY 1
#define FERRY_ITEM_PIECE 2
#define FERRY_ITEM_HELPER 3 /* of ferry_multilink_options.helpers */
#define FERRY_ITEM_CPU 4    /* of ferry_options.staging_cpus */
#define FERRY_ITEM_TICKET 5
#define FERRY_ITEM_NEST 6
#define FERRY_ITEM_AXIS 7 /* index is FERRY_NEST_AXES times the number of the nest, plus the number of the axis */

/* What `value` and `limit` of an error are. Fields of type int32_t have signed numbers. */
#define FERRY_NUMBERS_NONE 0       /* both are 0 and mean nothing */
#define FERRY_NUMBERS_VALUE 1      /* value: the value given. limit means nothing, here only */
#define FERRY_NUMBERS_AT_LEAST 2   /* value is less than limit, the minimum */
#define FERRY_NUMBERS_AT_MOST 3    /* value is more than limit, the maximum */
#define FERRY_NUMBERS_UP_TO 4      /* value is not in 0 to limit */
#define FERRY_NUMBERS_COUNT 5      /* value is not in 0 to limit - 1: limit is a number of things, such as devices */
#define FERRY_NUMBERS_EQUAL 6      /* value is not limit, the only value that works */
#define FERRY_NUMBERS_MULTIPLE 7   /* value is no multiple of limit */
#define FERRY_NUMBERS_POWER 8      /* value is no power of two, or more than limit */
#define FERRY_NUMBERS_BITS 9       /* value has bits that limit lacks */
#define FERRY_NUMBERS_BEGIN 10     /* value, where the box begins, is before limit, where the memory begins */
#define FERRY_NUMBERS_END 11       /* value, one past the last byte, row or slice, is past limit, the end */
#define FERRY_NUMBERS_ELEMENT 12   /* value does not fit elements of limit bytes */
#define FERRY_NUMBERS_COPY 13      /* value and limit are the indices of two copies that conflict */
#define FERRY_NUMBERS_KNOWN 14     /* value differs from limit, the size or version that this library knows */
#define FERRY_NUMBERS_OF 15        /* value is the number of a line, and limit the number of lines */
#define FERRY_NUMBERS_OBSTACLE 16  /* value is FERRY_OBSTACLE_* */
#define FERRY_NUMBERS_RESULT 17    /* value: the value given; limit: the CUresult with which the driver refused it */
#define FERRY_NUMBERS_NEEDS 18     /* value has a flag that also needs limit */
#define FERRY_NUMBERS_ONE_OF 19    /* limit lacks the bit 1 << value: its bits are the values that work */
#define FERRY_NUMBERS_DIFFERENT 20 /* value is the same device as limit, and must be another */
#define FERRY_NUMBERS_EXCLUDED 21  /* limit is the FERRY_FIELD_* of another field, whose value excludes value */
#define FERRY_NUMBERS_REQUIRES 22  /* limit is the FERRY_FIELD_* of another field, which value requires */
#define FERRY_NUMBERS_SAME 23      /* limit is the FERRY_FIELD_* of another field, which has the same value */
#define FERRY_NUMBERS_LACKS 24     /* value is the flags of the prepared batch, which lack the flag limit */
#define FERRY_NUMBERS_NOT_HERE 25  /* value has the flag limit, which other calls accept, but this call rejects */
#define FERRY_NUMBERS_SHIFT 26 /* value is an address whose distance to the prepared address is no multiple of limit */
#define FERRY_NUMBERS_PREPARED 27 /* value and limit, the prepared address, are memory of different kinds */
#define FERRY_NUMBERS_SYSTEM 28 /* value: the system's error number, or FERRY_FILE_ENDED; limit: an offset in a file */
#define FERRY_NUMBERS_OPENED 29 /* value is the FERRY_FILE_* access of the file, which lacks the flag limit */

/*
 * Details of an error. Set struct_size before the call: 0 counts as 56, the size of the struct in this version, and
 * becomes 56; 1 to 7 is not filled. Every call that takes a ferry_error_info fills it; after a success all other fields
 * are 0 or NULL. There is no last error of a thread: the struct is the caller's, and no other call changes it.
 *
 * side, field, item and numbers say which of the other fields mean something. `value` is the offending value and
 * `limit` the bound that it missed, both in the field's unit. For some statuses they need more words:
 * OUT_OF_BOUNDS       of an array, field X, Y or Z, value: one past the last byte, row or slice of the box; limit: the
 *                     array's width in bytes, its height or its depth. Of memory, field ADDRESS, value: the address one
 *                     past the last byte; limit: the end of the allocation. If the box begins before the allocation,
 *                     the two are the beginnings. Of a file, field OFFSET, value: the offset one past the last byte;
 *                     limit: the size of the file. The side is the copy's; calls other than copies and fills have none,
 *                     and may name SIZE. ferry_external_memory_import has OPTIONS and no limit; the numbers of
 *                     ferry_external_memory_get_address and ferry_external_memory_create_array count from the memory's
 *                     beginning, or from the offset given. A piece of an updatable batch has no numbers
 * ARRAY_FORMAT        value: the x, the width, the destination's element size, the format or the number of channels
 * DEVICE              limit: the number of devices, the memory's device, for a fill the stream's device, or the device
 *                     that the call names twice
 * OVERFLOW            value: the offset, extent or slice height given; limit: the maximum that fits 64 bits
 * OTHER_KIND          of memory, value: the kind stated; limit: its kind. Of a new address of a prepared piece, value:
 *                     the new address; limit: the old one. Of a handle, value: its FERRY_IPC_*
 * ALIGNMENT           value: the address, pitch, width or stride
 * UNSUPPORTED         value: the pattern's size, depth, layer or handle types given
 * PROFILE             for a line, value: its number; limit: the number of lines
 *
 * side is set by calls that read a descriptor, options or a description. item and index are set by batches (COPY,
 * PIECE), ferry_ticket_wait for a batch whose file failed (the same), ferry_multilink_set (HELPER) and ferry_open (CPU).
 *
 * If the status is the driver's, every function sets driver_function to the driver function that failed. It is NULL if
 * ferry itself found the cause: in the child of a fork, or if another context has the handle of a destroyed one. field
 * and value are set too if the driver could not use the value of that parameter:
 * SIZE                an allocation for which no memory was left, or which is too large
 * ADDRESS             memory that is freed, registered, shared or closed
 * STREAM, EVENT       functions that begin with ferry_stream and ferry_event; ferry_event_record names the stream
 * CONTEXT             functions that begin with ferry_context
 * POOL                functions that begin with ferry_pool, except for allocations
 * ARRAY, LEVEL, PLANE functions on arrays
 * HANDLE              imports of other processes, and memory and semaphores of other APIs
 * A required pointer that is NULL has its field too, with value 0. driver_function may also be set with a FERRY_ERROR_*
 * status that replaces the driver's.
 */
struct ferry_error_info {
    uint32_t struct_size;
    int32_t status; /* as returned */
    int32_t side;   /* FERRY_SIDE_* */
    int32_t field;  /* FERRY_FIELD_* */
    uint64_t index; /* of the failed copy or other item, counted from 0 */
    uint64_t limit;
    uint64_t value;
    const char *driver_function; /* such as "cuMemAlloc"; NULL: none. Static, until the library is unloaded */
    int32_t item;                /* FERRY_ITEM_*: what index counts */
    int32_t numbers;             /* FERRY_NUMBERS_*: what value and limit are */
};

/*
 * Writes one readable line about `error` to `buffer`, cut to `size` bytes with its ending zero, such as:
 *   copy 7: destination.row_pitch: 100, must be at least 128 (FERRY_ERROR_PITCH)
 *   destination.y: 17, past the end at 16 (FERRY_ERROR_OUT_OF_BOUNDS)
 *   source.address: 0x7f5e00001001, past the end at 0x7f5e00001000 (FERRY_ERROR_OUT_OF_BOUNDS)
 *   size: 1099511627776: out of memory (CUDA_ERROR_OUT_OF_MEMORY from cuMemAlloc)
 * Returns the length of the whole line without the zero, or 0 for a NULL error. `buffer` may be NULL when size is 0:
 * the call then measures the line.
 *
 * NULL:          `error`, `buffer`.
 * Values:        `buffer`: `size` bytes.
 */
FERRY_API uint64_t ferry_error_format(const ferry_error_info *error, char *buffer, uint64_t size);

/* ---------------------------------------------------------------------------------------------------------------
 * Streams
 *
 * For programs without CUDA's headers. A program's own streams (CUstream, cudaStream_t) work everywhere as well as those
 * made here. ferry_event.h has events.
 * ------------------------------------------------------------------------------------------------------------ */

/*
 * The default streams of a context: FERRY_DEFAULT_STREAM_*, cast to a pointer as in
 * (struct CUstream_st *)(uintptr_t)FERRY_DEFAULT_STREAM_LEGACY, and NULL. The context depends on the call. For a copy:
 * the thread's current context, else the context of the destination's device, and so on as for ferry_copy. For memory,
 * an array or a pool of one device (fills, stream-ordered memory, deferred frees): the current one if it belongs to
 * that device, else ferry's for it. For a prepared batch: the current one, else ferry's for the batch's device. For all
 * other calls: the current one, else device 0's. Name a stream where a context of another device may be current. To
 * wait for work on a default stream, use ferry_context_synchronize, or use a stream of your own from the start. NULL is
 * the legacy stream also in programs compiled with --default-stream per-thread: those pass
 * FERRY_DEFAULT_STREAM_PER_THREAD.
 */
#define FERRY_DEFAULT_STREAM_LEGACY 1     /* the same stream as NULL */
#define FERRY_DEFAULT_STREAM_PER_THREAD 2 /* the default stream of the calling thread */

#define FERRY_STREAM_NON_BLOCKING 1u /* not ordered with the legacy default stream (CU_STREAM_NON_BLOCKING) */

/*
 * Creates a stream on `device`. `priority`: 0 is the lowest, negative numbers are more urgent, down to a limit that the
 * driver applies; copies ignore it.
 *
 * Values:        `flags`: FERRY_STREAM_NON_BLOCKING or 0.
 * Blocking:      first_use. The first call for a device retains its primary context.
 * Ownership:     *stream, a CUstream, is the caller's until ferry_stream_destroy.
 * Errors:        FERRY_ERROR_FLAGS.
 */
FERRY_API int32_t ferry_stream_create(ferry_instance *instance, int32_t device, uint32_t flags, int32_t priority,
                                      struct CUstream_st **stream, ferry_error_info *error);

/*
 * Destroys a stream; work enqueued on it still completes. NULL does nothing. FERRY_DEFAULT_STREAM_LEGACY and
 * FERRY_DEFAULT_STREAM_PER_THREAD are FERRY_ERROR_INVALID_ARGUMENT.
 *
 * Thread-safety: safe; no other call may be using the stream.
 * Blocking:      driver_lock.
 * Ownership:     the stream is gone; its work continues.
 */
FERRY_API int32_t ferry_stream_destroy(ferry_instance *instance, struct CUstream_st *stream, ferry_error_info *error);

/*
 * Waits until all work enqueued on `stream` has ended. Default streams belong to the current context, else to device
 * 0's context.
 *
 * Blocking:      stream. The call returns when the work has ended.
 * Errors:        late errors of earlier work.
 */
FERRY_API int32_t ferry_stream_synchronize(ferry_instance *instance, struct CUstream_st *stream,
                                           ferry_error_info *error);

/*
 * Sets *done to 1 if all work enqueued on `stream` has ended, else to 0. A failure also sets 0, so a loop must check
 * the status. Default streams as for ferry_stream_synchronize.
 *
 * Values:        `done`: 0 or 1.
 * Errors:        late errors of earlier work.
 */
FERRY_API int32_t ferry_stream_query(ferry_instance *instance, struct CUstream_st *stream, int32_t *done,
                                     ferry_error_info *error);

/*
 * Calls done(user, status) once the work enqueued on `stream` so far has ended. Threads: driver; must not call ferry or
 * the driver. Later work on the stream waits until `done` returns. `status` is 0, or what ended the work: a broken
 * context calls `done` too, a destroyed one may not. Default streams as for ferry_stream_synchronize.
 *
 * NULL:          `user`.
 * Blocking:      driver_lock. `done` must not wait for a thread that calls ferry or the driver either. It may be
 *                called before this call returns, and after ferry_close.
 * Ownership:     `done` and `user` must live until the call of `done`. If this call fails, `done` is not called.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT for NULL `done`; FERRY_ERROR_CAPTURE on a stream that is being captured;
 *                FERRY_ERROR_OUT_OF_MEMORY.
 */
FERRY_API int32_t ferry_stream_notify(ferry_instance *instance, struct CUstream_st *stream,
                                      void (*done)(void *user, int32_t status), void *user, ferry_error_info *error);

/* ---------------------------------------------------------------------------------------------------------------
 * Device memory
 * ------------------------------------------------------------------------------------------------------------ */

/* The kind of memory at an address. */
#define FERRY_MEMORY_NONE (-1)  /* in ferry_explanation only: a fill has no source */
#define FERRY_MEMORY_PAGEABLE 0 /* ordinary host memory or none at all; a host pool's without access to the pool */
#define FERRY_MEMORY_PINNED 1   /* allocated pinned, or registered */
#define FERRY_MEMORY_DEVICE 2
#define FERRY_MEMORY_MANAGED 3
#define FERRY_MEMORY_ARRAY 4 /* in ferry_explanation only */
#define FERRY_MEMORY_FILE 5  /* in ferry_explanation only */

/*
 * Allocates `size` bytes on `device`, aligned to 256 bytes or more. Size 0 is an error.
 *
 * Blocking:      device. cuMemAlloc may wait for the device. The call waits for running work if deferred frees keep
 *                more than ferry_options.deferred_bytes, or if the device has no memory left and deferred frees keep
 *                some.
 * Ownership:     *address is the caller's until ferry_device_free, ferry_device_free_async or
 *                ferry_device_free_deferred.
 * Errors:        the driver's -1002 if it is out of memory.
 */
FERRY_API int32_t ferry_device_alloc(ferry_instance *instance, int32_t device, uint64_t size, uint64_t *address,
                                     ferry_error_info *error);

/*
 * Frees memory of ferry_device_alloc, ferry_device_alloc_pitched, ferry_managed_alloc, ferry_device_alloc_async or
 * ferry_pool_alloc_async.
 *
 * Values:        `address`: 0: no memory.
 * Blocking:      device. The call waits until running work on the device has ended, as cuMemFree does.
 * Errors:        FERRY_ERROR_ADDRESS if it is neither device nor managed memory nor of a pool, or was given to
 *                ferry_device_free_deferred; _IMPORTED for memory of another process (ferry_ipc_close_memory) and of
 *                another API (ferry_external_memory_release).
 */
FERRY_API int32_t ferry_device_free(ferry_instance *instance, uint64_t address, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif
