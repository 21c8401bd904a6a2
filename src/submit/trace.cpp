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

thread_local call_notes *running = nullptr; // notes of the call that the thread is in

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
    event.tag = call.tag;
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
    if (!scope.enter(notes.context)) watch(event, notes.context);
    return result;
}

bool tracer::start_thread() noexcept {
    if (thread_.is_started()) return true;
    has_thread_ = thread_.start([](void *self) { static_cast<tracer *>(self)->look_for_ends(); }, this, traits_);
    return has_thread_;
}

// The stream's context must be current. The end is not traced if the stream is being captured, or an event or memory is
// not available.
void tracer::watch(const ferry_trace_event &event, CUcontext context) noexcept {
    if (refuse_events_under_capture(cu_, event.stream)) return;
    void *const place = memory_.allocate(sizeof(watched), alignof(watched));
    if (!place) return;
    auto *const made = new (place) watched{event, nullptr, name_context(cu_, context), nullptr, nullptr};
    if (call_optional(cu_.cuEventCreate, &made->passed, CU_EVENT_DISABLE_TIMING) ||
        call_optional(cu_.cuEventRecord, made->passed, event.stream))
        return drop(*made, made->passed);
    const std::lock_guard lock(mutex_);
    if (!start_thread()) return drop(*made, true);
    watched_.push_back(*made);
    arrived_.notify_one();
}

void tracer::drop(watched &one, bool is_event_left) noexcept {
    if (is_event_left) cu_.cuEventDestroy(one.passed);
    memory_.deallocate(&one, sizeof one);
}

bool tracer::lives(const context_name &context) const noexcept {
    return contexts_.retains(context.handle) || may_live(cu_, context);
}

// An event must not be passed to the driver after its context has ended, because another event may have its handle.
tracer::progress tracer::query(watched &one) const noexcept {
    if (!lives(one.made_in)) return progress::unknown;
    one.event.status = to_status(cu_.cuEventQuery(one.passed));
    if (one.event.status == to_status(CUDA_ERROR_NOT_READY)) return progress::running;
    one.event.done_ns = clock_ns();
    return one.event.status && !lives(one.made_in) ? progress::unknown : progress::over;
}

// Runs without the mutex, because the program's function may call ferry.
void tracer::end(watched &one, progress seen) noexcept {
    if (seen == progress::over) tell(one.event, FERRY_PHASE_DONE);
    drop(one, false);
}

// The mutex is locked while an event is passed to the driver, so that retire() finds every call of its context in one
// of the chains.
void tracer::look_for_ends() noexcept {
    const relaxed_capture_mode relaxed(cu_); // queries must not break captures of the program's threads
    std::unique_lock lock(mutex_);
    for (;;) {
        const bool is_last_look = is_closing_;
        looked_at_ = std::exchange(watched_, {});
        while (watched *const one = looked_at_.pop()) {
            const progress seen = query(*one);
            if (seen == progress::running && !is_last_look) {
                still_running_.push_back(*one);
                continue;
            }
            if (seen != progress::unknown) cu_.cuEventDestroy(one->passed);
            lock.unlock();
            end(*one, seen);
            lock.lock();
        }
        if (is_last_look) return;
        const bool is_any_left = !still_running_.is_empty();
        while (watched *const one = still_running_.last()) {
            still_running_.remove(*one);
            watched_.push_front(*one);
        }
        if (is_any_left) {
            lock.unlock();
            rest_for(between_looks_ns);
            lock.lock();
        } else {
            arrived_.wait(lock, [&] { return is_closing_ || !watched_.is_empty(); });
        }
    }
}

template <class Matches> chain<tracer::watched> tracer::take(Matches matches) noexcept {
    chain<watched> taken;
    const std::lock_guard lock(mutex_);
    for (chain<watched> *const list : {&still_running_, &looked_at_, &watched_})
        for (watched *one = list->first(); one;) {
            watched *const next = one->next;
            if (matches(*one)) {
                list->remove(*one);
                taken.push_back(*one);
            }
            one = next;
        }
    return taken;
}

void tracer::retire(CUcontext context) noexcept {
    chain<watched> ending = take([&](const watched &one) { return one.made_in.handle == context; });
    if (ending.is_empty()) return;
    const relaxed_capture_mode relaxed(cu_);
    while (watched *const one = ending.pop()) {
        progress seen = query(*one);
        for (; seen == progress::running; seen = query(*one))
            rest_for(between_looks_ns);
        if (seen != progress::unknown) cu_.cuEventDestroy(one->passed);
        end(*one, seen);
    }
}

void tracer::release_context(int device, function_ref<void()> release) noexcept {
    chain<watched> aside =
        take([&](const watched &one) { return one.event.device == device && !contexts_.retains(one.made_in.handle); });
    release();
    while (watched *const one = aside.pop()) {
        if (!may_live(cu_, one->made_in)) {
            drop(*one, false);
            continue;
        }
        const std::lock_guard lock(mutex_);
        watched_.push_back(*one);
        arrived_.notify_one();
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
