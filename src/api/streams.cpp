// The C functions for streams and events.
#include "driver/result.h"
#include "ferry/ferry_event.h"
#include "submit/note_error.h"
#include "submit/notification.h"

using namespace ferry;

namespace {

constexpr int32_t not_ready = to_status(CUDA_ERROR_NOT_READY);

error refuse_flags(std::uint32_t flags, numbers given, std::uint32_t limit) noexcept {
    return refuse(FERRY_ERROR_FLAGS, FERRY_SIDE_NONE, FERRY_FIELD_FLAGS, given, limit, flags);
}

// Translates the status of a query: CUDA_ERROR_NOT_READY becomes success with *done = 0.
status_code answer(status_code status, int32_t *done) noexcept {
    *done = status == FERRY_SUCCESS;
    return status == not_ready ? status_code() : status;
}

// Calls `entry` with the context of `stream` current.
template <class Entry, class... Arguments>
status_code call_beside(ferry_instance *instance, CUstream stream, const Entry &entry,
                        Arguments... arguments) noexcept {
    context_choice choice;
    context_scope scope(instance->cu);
    error failed = choose_context(instance->cu, instance->contexts, stream, -1, choice);
    if (!failed) failed = scope.enter(choice.wanted, choice.current);
    return noted(*instance, failed ? failed.status : call_optional(entry, arguments...));
}

} // namespace

extern "C" {

int32_t ferry_stream_create(ferry_instance *instance, int32_t device, uint32_t flags, int32_t priority,
                            CUstream_st **stream, ferry_error_info *details) {
    if (stream) *stream = nullptr;
    if (!instance || !stream) return report_null(details, instance, stream);
    if (flags & ~FERRY_STREAM_NON_BLOCKING)
        return report(details, refuse_flags(flags, numbers::bits, FERRY_STREAM_NON_BLOCKING));
    static_assert(FERRY_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING);
    context_scope scope(instance->cu);
    if (error failed = enter_device(*instance, device, scope)) return report(details, failed);
    return report(details, {.status = noted(*instance, call_optional(instance->cu.cuStreamCreateWithPriority, stream,
                                                                     flags, priority))});
}

int32_t ferry_stream_destroy(ferry_instance *instance, CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!stream) return report(details, ok);
    if (belongs_to_current_context(stream)) // a default stream
        return report(details,
                      refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_STREAM, number(stream)));
    return report(details, about({.status = noted(*instance, call_optional(instance->cu.cuStreamDestroy, stream))},
                                 FERRY_FIELD_STREAM, number(stream)));
}

int32_t ferry_stream_synchronize(ferry_instance *instance, CUstream_st *stream, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details, about({.status = call_beside(instance, stream, instance->cu.cuStreamSynchronize, stream)},
                                 FERRY_FIELD_STREAM, number(stream)));
}

int32_t ferry_stream_query(ferry_instance *instance, CUstream_st *stream, int32_t *done, ferry_error_info *details) {
    if (done) *done = 0;
    if (!instance || !done) return report_null(details, instance, done);
    return report(details,
                  about({.status = answer(call_beside(instance, stream, instance->cu.cuStreamQuery, stream), done)},
                        FERRY_FIELD_STREAM, number(stream)));
}

int32_t ferry_stream_wait_event(ferry_instance *instance, CUstream_st *stream, CUevent_st *event,
                                ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!event) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details,
                  about({.status = call_beside(instance, stream, instance->cu.cuStreamWaitEvent, stream, event, 0u)},
                        FERRY_FIELD_STREAM, number(stream)));
}

int32_t ferry_stream_notify(ferry_instance *instance, CUstream_st *stream, void (*done)(void *user, int32_t status),
                            void *user, ferry_error_info *details) {
    if (!instance || !done) return report_null(details, instance, done);
    return report(details, notify_behind(*instance, stream, done, user));
}

int32_t ferry_event_create(ferry_instance *instance, int32_t device, uint32_t flags, CUevent_st **event,
                           ferry_error_info *details) {
    if (event) *event = nullptr;
    if (!instance || !event) return report_null(details, instance, event);
    constexpr std::uint32_t known = FERRY_EVENT_BLOCKING_SYNC | FERRY_EVENT_DISABLE_TIMING | FERRY_EVENT_INTERPROCESS;
    if (flags & ~known) return report(details, refuse_flags(flags, numbers::bits, known));
    if (flags & FERRY_EVENT_INTERPROCESS && !(flags & FERRY_EVENT_DISABLE_TIMING))
        return report(details, refuse_flags(flags, numbers::needs, FERRY_EVENT_DISABLE_TIMING));
    static_assert(FERRY_EVENT_BLOCKING_SYNC == CU_EVENT_BLOCKING_SYNC);
    static_assert(FERRY_EVENT_DISABLE_TIMING == CU_EVENT_DISABLE_TIMING);
    static_assert(FERRY_EVENT_INTERPROCESS == CU_EVENT_INTERPROCESS);
    context_scope scope(instance->cu);
    error failed = enter_device(*instance, device, scope);
    if (!failed) failed = instance->sharing.events.create_event(device, flags, *event);
    note_error(*instance, failed);
    return report(details, failed);
}

int32_t ferry_event_destroy(ferry_instance *instance, CUevent_st *event, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    return report(details, event ? about(noted(*instance, instance->sharing.events.destroy_event(event)),
                                         FERRY_FIELD_EVENT, number(event))
                                 : ok);
}

int32_t ferry_event_record(ferry_instance *instance, CUevent_st *event, CUstream_st *stream,
                           ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!event) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details, about({.status = call_beside(instance, stream, instance->cu.cuEventRecord, event, stream)},
                                 FERRY_FIELD_STREAM, number(stream)));
}

int32_t ferry_event_synchronize(ferry_instance *instance, CUevent_st *event, ferry_error_info *details) {
    if (!instance) return report_null(details, instance);
    if (!event) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details, about({.status = noted(*instance, call_optional(instance->cu.cuEventSynchronize, event))},
                                 FERRY_FIELD_EVENT, number(event)));
}

int32_t ferry_event_query(ferry_instance *instance, CUevent_st *event, int32_t *done, ferry_error_info *details) {
    if (done) *done = 0;
    if (!instance || !done) return report_null(details, instance, done);
    if (!event) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details,
                  about({.status = noted(*instance, answer(call_optional(instance->cu.cuEventQuery, event), done))},
                        FERRY_FIELD_EVENT, number(event)));
}

int32_t ferry_event_elapsed_time(ferry_instance *instance, CUevent_st *start, CUevent_st *end, float *milliseconds,
                                 ferry_error_info *details) {
    if (milliseconds) *milliseconds = 0;
    if (!instance || !milliseconds) return report_null(details, instance, milliseconds);
    if (!start || !end) return report_null_field(details, FERRY_FIELD_EVENT);
    return report(details, {.status = noted(*instance,
                                            call_optional(instance->cu.cuEventElapsedTime, milliseconds, start, end))});
}

} // extern "C"
