/*
 * Sharing of memory, pools and events between processes.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_IPC_H
#define FERRY_FERRY_IPC_H

#include "ferry_event.h"
#include "ferry_memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------------------------
 * Sharing between processes
 *
 * One process exports an object as a handle of 256 bytes and sends the handle to another process: through a pipe, a
 * socket or shared memory. The other process imports it. Both run on one machine with the same driver.
 *
 * What can be shared: memory of ferry_device_alloc (legacy IPC); pools created with a handle type, and memory from
 * them; events created with FERRY_EVENT_INTERPROCESS. Default pools and managed, pinned and array memory cannot be
 * shared. To share host memory, use the system's own means and register the memory in each process. Where the driver
 * shares nothing of a kind, exports and imports return FERRY_ERROR_UNSUPPORTED. The software driver on Windows shares
 * nothing.
 *
 * The processes order their work by shared events. The importer waits for the exporter's event before it uses memory;
 * the exporter waits for the importer's event before it frees the memory. Stream-ordered memory may be exported
 * immediately; events order its use. The importer closes first: memory that the exporter has freed may be allocated
 * again and change under the importer, without an error.
 *
 * Imports belong to the instance and are counted; imports still open at ferry_close stay open until their context
 * ends. Importing memory that this process exported returns the original address, and importing a pool or event that
 * this instance exported returns the original handle; closing such an import ends nothing. The driver does not count
 * imports of pools and of memory from pools: if two instances of one process import the same one, the first to close it
 * ends it for both. When a process ends, memory that another one has mapped stays readable.
 * ------------------------------------------------------------------------------------------------------------ */

/* What travels between the processes. Opaque, without pointers or alignment. It names process, machine, device, offset
 * and size, and has a checksum. It is no proof of origin: any process that can send one can forge one. */
#define FERRY_IPC_HANDLE_SIZE 256
typedef struct ferry_ipc_handle {
    uint8_t bytes[FERRY_IPC_HANDLE_SIZE];
} ferry_ipc_handle;

/* The kind of object that a handle names. */
#define FERRY_IPC_MEMORY 1      /* memory of ferry_device_alloc, cuMemAlloc or cudaMalloc */
#define FERRY_IPC_POOL 2        /* a pool */
#define FERRY_IPC_POOL_MEMORY 3 /* an allocation from a pool */
#define FERRY_IPC_EVENT 4       /* an event */

/* What a handle contains. */
typedef struct ferry_ipc_info {
    uint32_t struct_size;
    int32_t kind;          /* FERRY_IPC_* */
    int32_t device;        /* its ordinal in this process; -1: not visible here, or not of a device */
    uint32_t handle_types; /* FERRY_HANDLE_*: with which a pool was exported */
    uint64_t size;         /* of memory: bytes from the imported address on */
    uint64_t process;      /* the exporter's process number, in its own namespace */
    uint8_t device_uuid[16];
    int32_t is_own; /* 1: this process exported it */
    uint32_t reserved;
} ferry_ipc_info;

/*
 * Fills `info` from a handle, without importing it.
 *
 * Errors:        FERRY_ERROR_HANDLE for bytes that are no handle, are cut off or have changed, and for a handle of a
 *                later version.
 */
FERRY_API int32_t ferry_ipc_get_info(ferry_instance *instance, const ferry_ipc_handle *handle, ferry_ipc_info *info,
                                     ferry_error_info *error);

/*
 * Makes a handle for `size` bytes from `address` on. The importer maps the whole
 * allocation. For memory from a pool, first export the pool through the same instance.
 *
 * Values:        `size`: bytes; 0: to the end of the allocation.
 * Blocking:      driver_lock.
 * Ownership:     `address` must live until the importer has closed the memory, which stays the caller's.
 * Errors:        FERRY_ERROR_ADDRESS for an address that the driver does not know; _OUT_OF_BOUNDS; _NOT_SHAREABLE for
 *                other kinds of memory, for memory of a pool that was not exported, and for imported memory.
 */
FERRY_API int32_t ferry_ipc_export_memory(ferry_instance *instance, uint64_t address, uint64_t size,
                                          ferry_ipc_handle *handle, ferry_error_info *error);

/*
 * Makes a handle for a pool, with one of the handle types it was created with. With FERRY_HANDLE_POSIX_FD, *os_handle
 * is a file descriptor that must be sent too, over a Unix socket; with FERRY_HANDLE_WIN32 it is a HANDLE. With
 * FERRY_HANDLE_FABRIC everything is in `handle`.
 *
 * Values:        `handle_type`: FERRY_HANDLE_*, one of them; `os_handle`: a descriptor or a HANDLE; -1: everything is
 *                in `handle`, or the call failed.
 * Blocking:      driver_lock.
 * Ownership:     *os_handle is the caller's to close; the pool stays the caller's.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT for a handle_type that is not one of the four; _NOT_SHAREABLE for the
 *                default pool, for a pool without that handle type and for an imported pool.
 */
FERRY_API int32_t ferry_ipc_export_pool(ferry_instance *instance, struct CUmemPoolHandle_st *pool, uint32_t handle_type,
                                        ferry_ipc_handle *handle, int64_t *os_handle, ferry_error_info *error);

/*
 * Makes a handle for an event created with FERRY_EVENT_INTERPROCESS. For an event of ferry_event_create the handle
 * names the device. For any other event it does not, because the driver does not report the device.
 *
 * Blocking:      driver_lock.
 * Ownership:     the event stays the caller's.
 * Errors:        FERRY_ERROR_NOT_SHAREABLE for other events, and for imported ones.
 */
FERRY_API int32_t ferry_ipc_export_event(ferry_instance *instance, struct CUevent_st *event, ferry_ipc_handle *handle,
                                         ferry_error_info *error);

/*
 * Maps memory of another process. *address is the address here of the first exported byte, on the device that the
 * handle names, in the context that ferry uses for that device. Handles into one allocation share one mapping: an
 * allocation that is imported twice has one address, and each import needs its own close. For memory from a pool, first
 * import the pool through the same instance. A handle made by this process, through any instance, maps nothing:
 * *address is the exported address.
 *
 * Blocking:      first_use. The first call for a device retains its primary context. Each call takes tens of
 *                microseconds while the driver maps the memory.
 * Ownership:     *address is the caller's until ferry_ipc_close_memory or ferry_ipc_close_memory_deferred; it must not
 *                be freed.
 * Errors:        FERRY_ERROR_OTHER_KIND for the handle of a pool or event; _HANDLE for bytes that are no handle, for a
 *                handle of a later version, for an offset or size beyond the memory that the driver has mapped, and for
 *                an object that no longer exists (not always detected: only the exporter knows which memory of a pool
 *                exists); _MACHINE for a handle made on another machine; _DEVICE for a device that this process does not
 *                see; _POOL if the pool was not imported. Nothing has been mapped.
 */
FERRY_API int32_t ferry_ipc_import_memory(ferry_instance *instance, const ferry_ipc_handle *handle, uint64_t *address,
                                          ferry_error_info *error);

/*
 * Imports a pool of another process, from its handle and the os_handle that was sent with it. An imported pool serves
 * only to import memory (see ferry_pool_info.is_imported). Its own device has access; for others this process calls
 * ferry_pool_set_access. A second import returns the same pool, needs a second close and does not read os_handle. For a
 * pool that this instance exported, *pool is that pool. A pool that another instance of this process exported is
 * imported like a pool of another process.
 *
 * Blocking:      first_use. The first call for a device retains its primary context. Each call takes milliseconds.
 * Ownership:     os_handle stays the caller's, who may close it immediately. *pool is the caller's until
 *                ferry_ipc_close_pool or ferry_ipc_close_pool_deferred.
 * Errors:        as ferry_ipc_import_memory; FERRY_ERROR_HANDLE also for an os_handle that is not a pool's.
 */
FERRY_API int32_t ferry_ipc_import_pool(ferry_instance *instance, const ferry_ipc_handle *handle, int64_t os_handle,
                                        struct CUmemPoolHandle_st **pool, ferry_error_info *error);

/*
 * Imports an event of another process. Streams and calls can wait for it, query it and record it like any other; it has
 * no timing. Each import makes a new event, in the context that ferry uses for the device that the handle names, else
 * in the current context, else in device 0's. For an event that this instance exported, *event is that event.
 *
 * If the exporter dies before its stream has reached the record, the event never completes. A program that must not
 * hang polls with ferry_event_query.
 *
 * Blocking:      first_use. The first call for a device retains its primary context.
 * Ownership:     *event is the caller's until ferry_ipc_close_event.
 * Errors:        as ferry_ipc_import_memory; FERRY_ERROR_HANDLE for an event of another instance of this process. An
 *                event that its exporter has destroyed, while it still runs, is not detected.
 */
FERRY_API int32_t ferry_ipc_import_event(ferry_instance *instance, const ferry_ipc_handle *handle,
                                         struct CUevent_st **event, ferry_error_info *error);

/*
 * Closes one import of memory; `address` is the imported address, or any within the memory. The last close unmaps it.
 * Memory of a pool is unmapped in the order of `stream`, as by ferry_device_free_async: that stream must come after all
 * use of any of the imports. Other memory is unmapped once running work on the device has ended; `stream` is then not
 * read.
 *
 * Values:        `address`: 0: no import.
 * Blocking:      device, if this is the last close of memory that is not from a pool: the call waits until running work
 *                on the device has ended. Otherwise driver_lock.
 * Ownership:     the import is gone; the memory is still the exporter's.
 * Errors:        FERRY_ERROR_ADDRESS for an address that this instance has not imported; _CAPTURE for memory of a pool
 *                and a stream that is being captured.
 */
FERRY_API int32_t ferry_ipc_close_memory(ferry_instance *instance, uint64_t address, struct CUstream_st *stream,
                                         ferry_error_info *error);

/*
 * ferry_ipc_close_memory, always in the order of `stream`, and waits for no work. The stream must come after all use of
 * any of the imports; it may be destroyed immediately. Memory that is not from a pool stays mapped until the earlier
 * work on `stream` has completed and ferry_deferred_trim, a later allocation by ferry on the device (see
 * ferry_options.deferred_bytes; not an import) or ferry_close unmaps it. Until then the exporter's memory stays
 * allocated, even if the exporter has freed it. `stream` is not read if this is not the last close. Default streams
 * belong to the memory's device.
 *
 * Values:        `address`: 0: no import.
 * Blocking:      driver_lock.
 * Ownership:     the import is gone; the memory is still the exporter's.
 * Errors:        FERRY_ERROR_ADDRESS for an address that this instance has not imported; _CAPTURE on a stream that is
 *                being captured; _OUT_OF_MEMORY. After an error the import is still open.
 */
FERRY_API int32_t ferry_ipc_close_memory_deferred(ferry_instance *instance, uint64_t address,
                                                  struct CUstream_st *stream, ferry_error_info *error);

/*
 * Closes one import of a pool. The last close destroys the imported pool.
 *
 * NULL:          `pool`.
 * Blocking:      device. cuMemPoolDestroy may wait for the device.
 * Errors:        FERRY_ERROR_POOL for a pool that this instance has not imported; _IN_USE while memory from the pool is
 *                imported, also through another instance of this process, and possibly until the close of such memory has
 *                completed on its stream.
 */
FERRY_API int32_t ferry_ipc_close_pool(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                       ferry_error_info *error);

/*
 * ferry_ipc_close_pool in the order of `stream`, and waits for no work. The stream must come after the closes of all
 * memory that was imported from the pool; it may be destroyed immediately. The imported pool stays until the earlier work
 * on `stream` has completed and ferry_deferred_trim, a later allocation by ferry on the device (see
 * ferry_options.deferred_bytes) or ferry_close destroys it. An import of the same pool before that gives the pool again.
 * `stream` is not read if this is not the last close. Default streams belong to the pool's device.
 *
 * NULL:          `pool`.
 * Blocking:      driver_lock.
 * Ownership:     the import is gone.
 * Errors:        FERRY_ERROR_POOL for a pool that this instance has not imported; _IN_USE while this instance has memory
 *                from the pool open; _CAPTURE on a stream that is being captured; _OUT_OF_MEMORY. After an error the
 *                import is still open.
 */
FERRY_API int32_t ferry_ipc_close_pool_deferred(ferry_instance *instance, struct CUmemPoolHandle_st *pool,
                                                struct CUstream_st *stream, ferry_error_info *error);

/*
 * Closes one import of an event.
 *
 * NULL:          `event`.
 * Thread-safety: safe; no other call may be using the event.
 * Blocking:      driver_lock.
 * Ownership:     the import is gone; work that waits for the event continues.
 * Errors:        FERRY_ERROR_INVALID_ARGUMENT also for an event that this instance has not imported.
 */
FERRY_API int32_t ferry_ipc_close_event(ferry_instance *instance, struct CUevent_st *event, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_IPC_H */
