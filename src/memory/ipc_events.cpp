#include "memory/ipc_events.h"

#include <cstring>

#include "ferry/ferry_event.h"
#include "memory/ipc_handle.h"

namespace ferry {

namespace {

constexpr bool is_event(std::int32_t kind) noexcept { return kind == FERRY_IPC_EVENT; }

} // namespace

error ipc_events::note_event(CUevent event, int device) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get(device, context)) return failed;
    const lock_guard lock(mutex_);
    return events_.append({event, context, device, {}}) ? ok : error{.status = FERRY_ERROR_OUT_OF_MEMORY};
}

error ipc_events::create_event(int device, std::uint32_t flags, CUevent &event) noexcept {
    const bool is_shared = flags & FERRY_EVENT_INTERPROCESS;
    const status_code status = call_optional(cu_.cuEventCreate, &event, flags);
    if (is_shared && status == to_status(CUDA_ERROR_NOT_SUPPORTED)) return export_failure(status, FERRY_FIELD_FLAGS);
    if (status || !is_shared) return {.status = status};
    const error failed = note_event(event, device);
    if (failed) {
        call_optional(cu_.cuEventDestroy, event);
        event = nullptr;
    }
    return failed;
}

error ipc_events::destroy_event(CUevent event) noexcept {
    if (error failed = process_.check_driver()) return failed;
    const lock_guard lock(mutex_);
    for (const imported_event &imported : imported_events_)
        if (imported.event == event && imported.context)
            return refuse(FERRY_ERROR_IMPORTED, FERRY_SIDE_NONE, FERRY_FIELD_EVENT);
    if (const status_code status = call_optional(cu_.cuEventDestroy, event)) return {.status = status};
    for (std::size_t i = 0; i < events_.size(); ++i)
        if (events_[i].event == event) {
            events_.remove(i);
            break;
        }
    return {};
}

error ipc_events::export_event(CUevent event, ferry_ipc_handle &handle) noexcept {
    if (!is_known(process_.own())) return {.status = FERRY_ERROR_UNSUPPORTED};
    if (error failed = process_.check_driver()) return failed;
    const lock_guard lock(mutex_);
    known_event *known = nullptr;
    for (known_event &each : events_)
        if (each.event == event) known = &each;
    const int device = known ? known->device : -1;
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = process_.enter(device, scope, context)) return failed;
    CUipcEventHandle payload;
    if (const status_code status = call_relaxed(cu_, cu_.cuIpcGetEventHandle, &payload, event))
        return export_failure(status, FERRY_FIELD_EVENT);
    if (!known) {
        if (!events_.append({event, nullptr, -1, {}})) return no_memory;
        known = events_.end() - 1;
    }
    if (known->name == ipc_key{} && !fill_with_random_bytes(known->name.bytes, sizeof known->name.bytes))
        return {.status = FERRY_ERROR_UNSUPPORTED};
    handle_contents contents = {};
    static_assert(sizeof payload == sizeof contents.payload);
    process_.begin_handle(FERRY_IPC_EVENT, device, contents);
    std::memcpy(contents.payload, &payload, sizeof payload);
    std::memcpy(contents.key, known->name.bytes, sizeof contents.key);
    encode(contents, handle);
    return {};
}

error ipc_events::import_event(const ferry_ipc_handle &handle, CUevent &event) noexcept {
    handle_contents contents;
    int device = -1;
    if (error failed = process_.check_handle(handle, is_event, contents, device)) return failed;
    imported_event imported = {nullptr, nullptr, 1};
    if (is_same(contents.exporter, process_.own())) {
        ipc_key name;
        std::memcpy(name.bytes, contents.key, sizeof name.bytes);
        if (name == ipc_key{}) return bad_handle(FERRY_ERROR_HANDLE); // events that were not exported have no name
        const lock_guard lock(mutex_);
        for (const known_event &known : events_)
            if (known.name == name) imported.event = known.event;
        if (!imported.event) return bad_handle(FERRY_ERROR_HANDLE);
        for (imported_event &known : imported_events_)
            if (known.event == imported.event && !known.context) {
                ++known.count;
                imported.count = 0;
            }
        if (imported.count && !imported_events_.append(imported)) return no_memory;
    } else {
        context_scope scope(cu_);
        if (error failed = process_.enter(device, scope, imported.context)) return failed;
        CUipcEventHandle payload;
        std::memcpy(&payload, contents.payload, sizeof payload);
        if (const status_code status = call_relaxed(cu_, cu_.cuIpcOpenEventHandle, &imported.event, payload))
            return import_failure(status);
        const lock_guard lock(mutex_);
        if (!imported_events_.append(imported)) {
            (void)call_optional(cu_.cuEventDestroy, imported.event);
            return no_memory;
        }
    }
    event = imported.event;
    return {};
}

error ipc_events::close_event(CUevent event) noexcept {
    if (error failed = process_.check_driver()) return failed;
    const lock_guard lock(mutex_);
    for (std::size_t i = 0; i < imported_events_.size(); ++i) {
        imported_event &known = imported_events_[i];
        if (known.event != event) continue;
        if (known.count > 1) {
            --known.count;
            return {};
        }
        if (known.context)
            if (const status_code status = call_optional(cu_.cuEventDestroy, event)) return {.status = status};
        imported_events_.remove(i);
        return {};
    }
    return refuse(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_EVENT);
}

void ipc_events::forget_context(CUcontext context) noexcept {
    const lock_guard lock(mutex_);
    for (std::size_t i = imported_events_.size(); i-- > 0;)
        if (imported_events_[i].context == context) imported_events_.remove(i);
    for (std::size_t i = events_.size(); i-- > 0;)
        if (events_[i].context == context) events_.remove(i);
}

} // namespace ferry
