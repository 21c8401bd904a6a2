#include "submit/trace.h"

#include <cstdlib>
#include <utility>

#include "submit/instance.h"
#include "submit/notification.h"
#include "system/threads.h"

namespace ferry {

namespace {

struct call_notes {
    std::uint32_t routes = 0;
    CUcontext context = nullptr;
};

thread_local call_notes *running = nullptr; // of the call that the thread is in

struct watched_call {
    ferry_trace_event event;
    void (*call)(void *user, const ferry_trace_event *event);
    void *user;
};

void tell_done(void *given, std::int32_t status) noexcept {
    watched_call watched = *static_cast<watched_call *>(given);
    std::free(given);
    watched.event.done_ns = clock_ns();
    watched.event.status = status;
    watched.call(watched.user, &watched.event);
}

// There is no second event if the stream is being captured, or the driver refuses.
void watch(ferry_instance &instance, const ferry_trace_event &event) noexcept {
    auto *const watched = static_cast<watched_call *>(std::malloc(sizeof(watched_call))); // outlives the instance
    if (!watched) return;
    *watched = {event, instance.trace.call, instance.trace.user};
    if (notify_behind(instance, event.stream, tell_done, watched)) std::free(watched);
}

} // namespace

void note_for_trace(route_kind route, CUcontext context) noexcept {
    if (!running) return;
    running->routes |= 1U << static_cast<unsigned>(route);
    running->context = context;
}

error trace(ferry_instance &instance, const traced_call &call, function_ref<error()> run) noexcept {
    call_notes notes;
    call_notes *const outer = std::exchange(running, &notes);
    ferry_trace_event event = {.struct_size = sizeof event,
                               .kind = call.kind,
                               .id = instance.trace.calls.fetch_add(1, std::memory_order_relaxed) + 1,
                               .begin_ns = clock_ns(),
                               .returned_ns = 0,
                               .done_ns = 0,
                               .bytes = call.bytes,
                               .count = call.count,
                               .stream = call.stream,
                               .routes = 0,
                               .status = 0,
                               .device = -1,
                               .is_synchronous = call.form == copy_form::synchronous};
    const error result = run();
    running = outer;
    event.returned_ns = clock_ns();
    event.routes = notes.routes;
    event.status = result.status;
    context_scope scope(instance.cu);
    const bool is_enqueued = notes.context && !scope.enter(notes.context) &&
                             !instance.contexts.device_of_current(notes.context, event.device);
    const bool is_over = event.is_synchronous || result || !is_enqueued;
    if (is_over) event.done_ns = event.returned_ns;
    instance.trace.call(instance.trace.user, &event);
    if (!is_over) watch(instance, event);
    return result;
}

} // namespace ferry
