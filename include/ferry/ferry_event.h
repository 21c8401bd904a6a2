/*
 * Events: points in the work of streams, for which other streams and threads wait, and between which time is measured.
 *
 * ferry.h states the conventions for statuses, structs and comments.
 */
#ifndef FERRY_FERRY_EVENT_H
#define FERRY_FERRY_EVENT_H

#include "ferry.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUevent_st; /* CUDA's own: CUevent and cudaEvent_t are pointers to it */

/* ---------------------------------------------------------------------------------------------------------------
 * Events
 *
 * For programs without CUDA's headers. A program's own events (CUevent, cudaEvent_t) work everywhere as well as those
 * made here.
 * ------------------------------------------------------------------------------------------------------------ */

/* Flags of ferry_event_create. */
#define FERRY_EVENT_BLOCKING_SYNC 1u  /* ferry_event_synchronize sleeps instead of spinning */
#define FERRY_EVENT_DISABLE_TIMING 2u /* cheaper; ferry_event_elapsed_time does not take it */
#define FERRY_EVENT_INTERPROCESS 4u   /* for ferry_ipc_export_event; needs FERRY_EVENT_DISABLE_TIMING as well */

/*
 * Creates an event on `device`; it can be recorded on streams of that device.
 *
 * Values:        `flags`: FERRY_EVENT_*.
 * Blocking:      first_use. The first call for a device retains its primary context.
 * Ownership:     *event, a CUevent, is the caller's until ferry_event_destroy.
 * Errors:        FERRY_ERROR_FLAGS; _UNSUPPORTED for FERRY_EVENT_INTERPROCESS where the driver shares no events
 *                (ferry_device_info.ipc_events).
 */
FERRY_API int32_t ferry_event_create(ferry_instance *instance, int32_t device, uint32_t flags,
                                     struct CUevent_st **event, ferry_error_info *error);

/*
 * Destroys an event; calls and streams that already wait for it are not affected.
 *
 * NULL:          `event`.
 * Thread-safety: safe; no other call may be using the event.
 * Blocking:      driver_lock.
 * Ownership:     the event is gone; work that waits for it continues.
 * Errors:        FERRY_ERROR_IMPORTED for an event of another process (ferry_ipc_close_event).
 */
FERRY_API int32_t ferry_event_destroy(ferry_instance *instance, struct CUevent_st *event, ferry_error_info *error);

/*
 * Records `event` after the work enqueued on `stream` so far. The stream must belong to the event's context. Default
 * streams as for ferry_stream_synchronize: for an event of another device, name a stream.
 *
 * Blocking:      driver_lock.
 * Errors:        the driver's -1400 for a stream of another context.
 */
FERRY_API int32_t ferry_event_record(ferry_instance *instance, struct CUevent_st *event, struct CUstream_st *stream,
                                     ferry_error_info *error);

/*
 * Makes later work on `stream` wait for the last record of `event`, on any device. It does not wait for an event that
 * was never recorded. The event may be destroyed or recorded again immediately. Default streams as for
 * ferry_stream_synchronize.
 *
 * Blocking:      driver_lock.
 */
FERRY_API int32_t ferry_stream_wait_event(ferry_instance *instance, struct CUstream_st *stream,
                                          struct CUevent_st *event, ferry_error_info *error);

/*
 * Waits until the work before the event's last record has ended. Returns immediately if the event was never recorded.
 *
 * Blocking:      stream. The call returns when that work has ended.
 * Errors:        late errors of earlier work.
 */
FERRY_API int32_t ferry_event_synchronize(ferry_instance *instance, struct CUevent_st *event, ferry_error_info *error);

/*
 * Sets *done to 1 if the work before the event's last record has ended or the event was never recorded, else to 0. A
 * failure also sets 0, so a loop must check the status.
 *
 * Values:        `done`: 0 or 1.
 * Errors:        late errors of earlier work.
 */
FERRY_API int32_t ferry_event_query(ferry_instance *instance, struct CUevent_st *event, int32_t *done,
                                    ferry_error_info *error);

/*
 * Stores the time from `start` to `end` in milliseconds, to about half a microsecond; negative if `end` passed first.
 * Both events belong to one context and must have passed.
 *
 * Blocking:      driver_lock.
 * Errors:        the driver's -1600 if an event has not passed yet, and -1400 if one was never recorded or has no
 *                timing, or if the two are of two contexts.
 */
FERRY_API int32_t ferry_event_elapsed_time(ferry_instance *instance, struct CUevent_st *start, struct CUevent_st *end,
                                           float *milliseconds, ferry_error_info *error);

#ifdef __cplusplus
}
#endif

#endif /* FERRY_FERRY_EVENT_H */
