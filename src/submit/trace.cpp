#include "submit/trace.h"

#include <new>
#include <utility>

#include "device/capture_mode.h"
#include "driver/result.h"

namespace ferry {

namespace {

struct call_notes {
    std::uint32_t routes = 0;
    CUcontext context = nullptr;
};

thread_local call_notes *running = nullptr; // of the call that the thread is in

constexpr std::uint64_t between_looks_ns = 50'000;

} // namespace

void tracer::note(route_kind route, CUcontext context) const noexcept {
    if (!running) return;
    running->routes |= 1U << static_cast<unsigned>(route);
    running->context = context;
}

void tracer::tell(ferry_trace_event &event, std::uint32_t phase) const noexcept {
    if (!(phases_ & phase)) return;
    event.phase = phase;
    call_(user_, &event);
}

error tracer::run(const traced_call &call, function_ref<error()> run) noexcept {
    call_notes notes;
    call_notes *const outer = std::exchange(running, &notes);
    ferry_trace_event event = {};
    event.struct_size = sizeof event;
    event.kind = call.kind;
    event.id = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    event.bytes = call.bytes;
    event.count = call.count;
    event.stream = call.stream;
    event.device = -1;
    event.is_synchronous = call.form == copy_form::synchronous;
    event.begin_ns = clock_ns();
    tell(event, FERRY_PHASE_BEGIN);
    const error result = run();
    event.returned_ns = clock_ns();
    running = outer;
    event.routes = notes.routes;
    event.status = result.status;
    int device = -1;
    const bool is_enqueued =
        notes.context && (contexts_.find(notes.context, device) || !contexts_.device_of(notes.context, device));
    if (is_enqueued) event.device = device;
    const bool is_over = event.is_synchronous || result || !is_enqueued;
    if (is_over) event.done_ns = event.returned_ns;
    tell(event, FERRY_PHASE_RETURN);
    if (is_over || !(phases_ & FERRY_PHASE_DONE)) return result;
    context_scope scope(cu_);
    if (!scope.enter(notes.context)) watch(event);
    return result;
}

bool tracer::start_thread() noexcept {
    if (thread_.is_started()) return true;
    return thread_.start([](void *self) { static_cast<tracer *>(self)->look_for_ends(); }, this, traits_);
}

// The stream's context is current. There is no event at the end if the stream is being captured, or something is not to
// be had.
void tracer::watch(const ferry_trace_event &event) noexcept {
    if (refuse_events_under_capture(cu_, event.stream)) return;
    void *const place = memory_.allocate(sizeof(watched), alignof(watched));
    if (!place) return;
    auto *const made = new (place) watched{event, nullptr, nullptr, nullptr};
    if (call_optional(cu_.cuEventCreate, &made->passed, CU_EVENT_DISABLE_TIMING) ||
        call_optional(cu_.cuEventRecord, made->passed, event.stream))
        return drop(*made);
    const std::lock_guard lock(mutex_);
    if (!start_thread()) return drop(*made);
    watched_.push_back(*made);
    arrived_.notify_one();
}

void tracer::drop(watched &one) noexcept {
    if (one.passed) cu_.cuEventDestroy(one.passed);
    memory_.deallocate(&one, sizeof one);
}

bool tracer::tell_if_over(watched &one) noexcept {
    const std::int32_t status = to_status(cu_.cuEventQuery(one.passed));
    if (status == to_status(CUDA_ERROR_NOT_READY)) return false;
    one.event.done_ns = clock_ns();
    one.event.status = status;
    tell(one.event, FERRY_PHASE_DONE);
    return true;
}

void tracer::look_for_ends() noexcept {
    const relaxed_capture_mode relaxed(cu_); // queries must not break captures of the program's threads
    std::unique_lock lock(mutex_);
    for (;;) {
        const bool is_last_look = is_closing_;
        chain<watched> looked_at = std::exchange(watched_, {}), left;
        lock.unlock();
        while (watched *const one = looked_at.pop()) {
            if (tell_if_over(*one) || is_last_look)
                drop(*one);
            else
                left.push_back(*one);
        }
        if (is_last_look) return;
        const bool is_any_left = !left.is_empty();
        if (is_any_left) rest_for(between_looks_ns);
        lock.lock();
        while (watched *const one = left.last()) {
            left.remove(*one);
            watched_.push_front(*one);
        }
        if (!is_any_left) arrived_.wait(lock, [&] { return is_closing_ || !watched_.is_empty(); });
    }
}

void tracer::close() noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (!thread_.is_started()) return;
        is_closing_ = true;
        arrived_.notify_one();
    }
    thread_.join();
}

} // namespace ferry
