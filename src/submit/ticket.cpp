#include "submit/ticket.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <new>

#include "device/capture_mode.h"
#include "driver/result.h"
#include "routes/devices_at_work.h"
#include "routes/relayed.h"
#include "staging/spin.h"
#include "submit/copy.h"
#include "submit/note_error.h"
#include "submit/run_step.h"
#include "system/threads.h"

namespace ferry {

namespace {

constexpr std::int32_t not_ready = to_status(CUDA_ERROR_NOT_READY);

// Creates the event before the copy is enqueued, because an enqueued copy cannot be cancelled.
error make_event(ferry_ticket &ticket) noexcept {
    const driver_table &cu = ticket.instance.cu;
    if (!cu.cuEventCreate || !cu.cuEventRecord || !cu.cuEventQuery || !cu.cuEventSynchronize || !cu.cuEventDestroy)
        return {.status = FERRY_ERROR_UNSUPPORTED};
    CUcontext context = nullptr;
    if (const call_result result = cu.cuCtxGetCurrent(&context)) return to_error(result);
    ticket.owner = name_context(cu, context);
    return to_error(cu.cuEventCreate(&ticket.passed, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
}

// Queries whether the copy has completed on the stream. Returns success, not_ready, or the error.
status_code ask_event(const ferry_ticket &ticket) noexcept {
    const driver_table &cu = ticket.instance.cu;
    const relaxed_capture_mode relaxed(cu);
    if (!relaxed.entered()) return relaxed.why().status;
    // An event must not be passed to the driver after its context was destroyed, because another event may have its
    // handle.
    status_code status = refuse_destroyed(cu, ticket.owner);
    if (status == FERRY_SUCCESS) status = to_status(cu.cuEventQuery(ticket.passed));
    if (status != not_ready) note_error(ticket.instance, {.status = status});
    return status;
}

// Records the contexts now, because the program may adopt other contexts later.
void note_others(ferry_ticket &ticket, std::uint64_t devices) noexcept {
    std::uint32_t count = 0;
    for (; devices != 0 && count < std::size(ticket.others); devices &= devices - 1) {
        CUcontext context = nullptr;
        if (ticket.instance.contexts.is_in_use(std::countr_zero(devices), context))
            ticket.others[count++] = name_context(ticket.instance.cu, context);
    }
    ticket.unnamed = devices;
    ticket.other_count.store(count, std::memory_order_relaxed);
}

// Must be called after the work has completed on the stream.
status_code ask_others(ferry_ticket &ticket) noexcept {
    if (const std::uint32_t count = ticket.other_count.load(std::memory_order_acquire)) {
        status_code status = status_of_contexts(ticket.instance, ticket.others, count);
        if (status == FERRY_SUCCESS) status = status_of_devices(ticket.instance, ticket.unnamed);
        ticket.status_of_others.store(noted(ticket.instance, status), std::memory_order_relaxed);
        ticket.other_count.store(0, std::memory_order_release);
    }
    return ticket.status_of_others.load(std::memory_order_relaxed);
}

// Whether no driver query is necessary: the copy is staged, and it is done or bytes have arrived since the last query.
// In all other cases the driver is queried, because it reports a dead context.
bool is_going_on(ferry_ticket &ticket, std::uint64_t bytes_done) noexcept {
    return ticket.is_staged &&
           (ticket.progress.is_done() || bytes_done != ticket.bytes_done_at_query.exchange(bytes_done));
}

error run(ferry_ticket &ticket, const prepared_copy &prepared, CUstream stream) noexcept {
    ferry_instance &instance = ticket.instance;
    if (error failed = refuse_captured(instance.cu, stream)) return failed;
    route_kind taken = route_kind::none;
    const copy_site site = {prepared.choice.wanted, stream, &taken};
    const shape &shape = prepared.step.shape;
    ticket.total = shape.bytes();
    const bool is_watched = prepared.step.plan.route == route_kind::staged && !is_in_parts(instance, shape);
    if (error failed = make_event(ticket)) return failed;
    if (error failed = run_step(instance, prepared.step, site, is_watched ? &ticket.progress : nullptr)) return failed;
    ticket.is_staged = is_watched && taken == route_kind::staged;
    ticket.route = static_cast<std::int32_t>(taken);
    if (ticket.route == FERRY_ROUTE_RELAYED) // other copies have no part of the stream's earlier work
        note_others(ticket, devices_of_relay(shape, prepared.step.call.context_device));
    return to_error(instance.cu.cuEventRecord(ticket.passed, stream));
}

void destroy_event(ferry_ticket &ticket) noexcept {
    if (ticket.passed && may_live(ticket.instance.cu, ticket.owner))
        static_cast<void>(ticket.instance.cu.cuEventDestroy(ticket.passed));
    ticket.passed = nullptr;
}

} // namespace

ticket_pool::~ticket_pool() {
    while (ferry_ticket *const left = free_.pop()) {
        std::destroy_at(left);
        memory_.deallocate(left, sizeof(ferry_ticket));
    }
}

ferry_ticket *ticket_pool::take(ferry_instance &instance) noexcept {
    void *place = nullptr;
    {
        const std::lock_guard lock(mutex_);
        ferry_ticket *reused = free_.first();
        while (reused && !reused->progress.is_done())
            reused = reused->next;
        if (reused) {
            free_.remove(*reused);
            std::destroy_at(reused);
        }
        place = reused;
    }
    if (!place) place = memory_.allocate(sizeof(ferry_ticket), alignof(ferry_ticket));
    return place ? new (place) ferry_ticket(instance) : nullptr;
}

void ticket_pool::release(ferry_ticket &ticket) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(ticket);
}

namespace {

// Takes a ticket for the work that enqueue(ticket) enqueues. Returns the ticket to the pool if that fails.
error with_ticket(ferry_instance &instance, ferry_ticket *&ticket,
                  function_ref<error(ferry_ticket &)> enqueue) noexcept {
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child}; // where the mutex may be locked
    ferry_ticket *const made = instance.tickets.take(instance);
    if (!made) return no_memory;
    const error failed = enqueue(*made);
    if (failed) {
        note_error(instance, failed);
        destroy_event(*made);
        instance.tickets.release(*made);
        return failed;
    }
    ticket = made;
    return {};
}

} // namespace

error enqueue_with_ticket(ferry_instance &instance, ferry_ticket **ticket, std::uint64_t tag, std::uint64_t bytes,
                          function_ref<error(ferry_ticket *)> enqueue) noexcept {
    if (!ticket) return enqueue(nullptr);
    return with_ticket(instance, *ticket, [&](ferry_ticket &made) noexcept {
        made.tag = tag;
        made.total = bytes;
        return enqueue(&made);
    });
}

error run_copy_with_ticket(ferry_instance &instance, const ferry_copy_desc &copy, const call_options &options,
                           CUstream stream, ferry_ticket *&ticket) noexcept {
    const error failed = with_ticket(instance, ticket, [&](ferry_ticket &made) noexcept {
        made.tag = options.tag;
        return with_prepared_copy(instance, copy, options.preferences, copy_form::asynchronous, stream, purpose::run,
                                  [&](const prepared_copy &prepared) noexcept { return run(made, prepared, stream); });
    });
    return failed ? find_refused_field(instance, copy, copy_form::asynchronous, stream, failed) : failed;
}

error begin_ticket(ferry_ticket *ticket, CUstream stream) noexcept {
    if (!ticket) return {};
    if (error failed = refuse_captured(ticket->instance.cu, stream)) return failed;
    return make_event(*ticket);
}

error end_ticket(ferry_ticket *ticket, CUstream stream) noexcept {
    if (!ticket) return {};
    note_others(*ticket, devices_at_work(ticket->instance, ticket->owner.handle, stream));
    return to_error(ticket->instance.cu.cuEventRecord(ticket->passed, stream));
}

error make_ticket(ferry_instance &instance, CUstream stream, ferry_ticket *&ticket) noexcept {
    return with_ticket(instance, ticket, [&](ferry_ticket &made) noexcept -> error {
        context_scope scope(instance.cu);
        if (error failed = enter_any(instance, stream, scope)) return failed;
        if (error failed = refuse_events_under_capture(instance.cu, stream)) return failed;
        if (error failed = make_event(made)) return failed;
        return end_ticket(&made, stream);
    });
}

namespace {

// Whether the work has ended, and the status that ended it. `bytes_done` is the number of bytes that had arrived before
// the call.
bool has_ended(ferry_ticket &ticket, std::uint64_t bytes_done, status_code &status) noexcept {
    status = FERRY_SUCCESS;
    if (!ticket.passed) return true;
    if (!is_going_on(ticket, bytes_done)) status = ask_event(ticket);
    if (!ticket.is_staged) {
        if (status == FERRY_SUCCESS) status = ask_others(ticket);
        if (status == FERRY_SUCCESS) status = ticket.progress.status.load(std::memory_order_relaxed);
        return status != not_ready;
    }
    // The query may have reported a dead context, and note_error then ended the copy.
    if (!ticket.progress.is_done()) return false;
    status = ticket.progress.status.load(std::memory_order_relaxed);
    return true;
}

bool has_ended(ferry_ticket &ticket, status_code &status) noexcept {
    return has_ended(ticket, ticket.progress.bytes_done.load(std::memory_order_relaxed), status);
}

// Calls look() until it returns true, or until the time is over. Between two calls it pauses for a small share of the
// time that has passed. Returns the last result.
template <class Look, class Pause>
bool look_for(std::int64_t timeout_ns, const Look &look, const Pause &pause) noexcept {
    constexpr std::uint64_t share = 16, min_ns = 5'000, max_ns = 1'000'000;
    const std::uint64_t begun = clock_ns();
    const std::uint64_t limit = timeout_ns < 0 ? UINT64_MAX : static_cast<std::uint64_t>(timeout_ns);
    for (;;) {
        if (look()) return true;
        const std::uint64_t passed = clock_ns() - begun;
        if (passed >= limit) return false;
        pause(std::min(std::clamp(passed / share, min_ns, max_ns), limit - passed));
    }
}

} // namespace

error query_ticket(ferry_ticket &ticket, ferry_ticket_info &info) noexcept {
    if (ticket.instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    info.route = ticket.route;
    info.bytes_total = ticket.total;
    info.tag = ticket.tag;
    const std::uint64_t bytes_done = ticket.progress.bytes_done.load(std::memory_order_relaxed);
    status_code status;
    const bool is_over = has_ended(ticket, bytes_done, status);
    info.done = is_over;
    if (is_over) info.status = status;
    if (is_over && status == FERRY_ERROR_FILE) {
        info.file_offset = ticket.progress.failure.offset;
        info.file_error = ticket.progress.failure.code;
    }
    if (is_over && !status && !ticket.is_staged)
        info.bytes_done = ticket.total;
    else
        info.bytes_done = is_over ? ticket.progress.bytes_done.load(std::memory_order_relaxed) : bytes_done;
    return {};
}

error wait_for_any(ferry_ticket *const *tickets, std::uint64_t count, std::int64_t timeout_ns,
                   std::uint64_t &index) noexcept {
    if (tickets[0]->instance.fork_mark.is_in_child()) return in_child;
    const auto any_ended = [&]() noexcept {
        status_code status;
        for (index = 0; index < count; ++index)
            if (has_ended(*tickets[index], status)) return true;
        return false;
    };
    const auto help_or_rest = [&](std::uint64_t time_ns) noexcept {
        for (std::uint64_t i = 0; i < count; ++i)
            if (ferry_ticket &one = *tickets[i]; one.is_staged && !one.progress.is_done())
                return one.instance.staging.help_for(one.progress, time_ns);
        // The system makes a thread that sleeps for less sleep longer.
        constexpr std::uint64_t shortest_sleep_ns = 20'000;
        if (time_ns < shortest_sleep_ns)
            spin_until([] { return false; }, time_ns);
        else
            rest_for(time_ns);
    };
    if (look_for(timeout_ns, any_ended, help_or_rest)) return {};
    index = 0;
    return {.status = FERRY_ERROR_NOT_READY};
}

error wait_for_ticket(ferry_ticket &ticket, std::int64_t timeout_ns) noexcept {
    ferry_instance &instance = ticket.instance;
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    if (!ticket.passed) return {};
    if (timeout_ns >= 0) {
        ferry_ticket *const only = &ticket;
        std::uint64_t index = 0;
        if (error failed = wait_for_any(&only, 1, timeout_ns, index)) return failed;
    }
    if (ticket.is_staged) {
        const error failed = instance.staging.help(ticket.progress);
        return failed.status == FERRY_ERROR_FILE ? to_error(ticket.progress.failure) : failed;
    }
    const relaxed_capture_mode relaxed(instance.cu); // a wait would break a capture of another thread
    if (!relaxed.entered()) return relaxed.why();
    status_code status = refuse_destroyed(instance.cu, ticket.owner);
    if (status == FERRY_SUCCESS) status = to_status(instance.cu.cuEventSynchronize(ticket.passed));
    status = noted(instance, status);
    if (status == FERRY_SUCCESS) status = ask_others(ticket);
    if (status == FERRY_SUCCESS) status = ticket.progress.status.load(std::memory_order_relaxed);
    return status == FERRY_ERROR_FILE ? to_error(ticket.progress.failure) : error{.status = status};
}

error make_stream_wait(ferry_ticket &ticket, CUstream stream) noexcept {
    ferry_instance &instance = ticket.instance;
    if (instance.fork_mark.is_in_child()) return in_child;
    context_scope scope(instance.cu);
    if (error failed = enter_any(instance, stream, scope)) return failed;
    // A graph must not wait for work outside of it.
    if (error failed = refuse_events_under_capture(instance.cu, stream)) return failed;
    if (!ticket.passed) return {};
    // The event was recorded behind the whole copy before the program got the ticket.
    status_code status = refuse_destroyed(instance.cu, ticket.owner);
    if (status == FERRY_SUCCESS) status = call_optional(instance.cu.cuStreamWaitEvent, stream, ticket.passed, 0u);
    return {.status = noted(instance, status)};
}

error release_ticket(ferry_ticket &ticket) noexcept {
    if (ticket.instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    destroy_event(ticket);
    ticket.instance.tickets.release(ticket);
    return {};
}

} // namespace ferry
