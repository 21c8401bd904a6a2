#include "submit/ticket.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
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
    if (ticket.passed) return {}; // another part of the same call has made it
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
    ticket.has_file = shape.has_file();
    const copy_plan &plan = prepared.step.plan;
    const bool is_watched = plan.route == route_kind::staged && !is_in_parts(instance, shape);
    // Bytes that threads have moved may be in a buffer, from which the stream copies them.
    ticket.ends_on_stream = plan.through_buffer || (shape.source.file && !is_host(shape.destination.kind));
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

// The index of the failed copy in its batch. A piece of 0 bytes ends where the piece before it ends, so it is not found.
std::uint64_t failed_index(const ferry_ticket &ticket) noexcept {
    const std::uint64_t at = ticket.progress.failed_at;
    const growing<std::uint64_t> &ends = ticket.piece_ends;
    if (ends.size() == 0) return at; // each copy has its index
    return static_cast<std::uint64_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
}

// Logs the failure of a file that the program does not know. No thread may write to the progress any more.
void log_failure(ferry_ticket &ticket) noexcept {
    const staged_progress &progress = ticket.progress;
    const file_failure &failed = progress.failure;
    if (!progress.has_failed || failed.code == file_failure::cancelled || ticket.is_failure_known.exchange(true))
        return;
    char in_batch[48] = "";
    if (ticket.item != FERRY_ITEM_NONE)
        std::snprintf(in_batch, sizeof in_batch, ", %s %" PRIu64 " of its batch",
                      ticket.item == FERRY_ITEM_PIECE ? "piece" : "copy", failed_index(ticket));
    ticket.instance.log.write(FERRY_LOG_ERROR,
                              "a copy of a file failed after its ticket was released: error %" PRId32
                              " of the system at byte %" PRIu64 "%s, tag %" PRIu64,
                              failed.code, failed.offset, in_batch, ticket.tag);
}

} // namespace

ticket_pool::~ticket_pool() {
    while (ferry_ticket *const left = free_.pop()) {
        log_failure(*left);
        std::destroy_at(left);
        memory_.deallocate(left, sizeof(ferry_ticket));
    }
}

ferry_ticket *ticket_pool::take(ferry_instance &instance) noexcept {
    ferry_ticket *reused = nullptr;
    {
        const std::lock_guard lock(mutex_);
        reused = free_.first();
        while (reused && !reused->progress.is_done())
            reused = reused->next;
        if (reused) free_.remove(*reused);
    }
    if (reused) {
        log_failure(*reused); // the program's function may use tickets
        std::destroy_at(reused);
    }
    void *place = reused;
    if (!place) place = memory_.allocate(sizeof(ferry_ticket), alignof(ferry_ticket));
    return place ? new (place) ferry_ticket(instance, memory_) : nullptr;
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
    if (status == FERRY_SUCCESS && ticket.ends_on_stream) status = ask_event(ticket);
    return status != not_ready;
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

error with_failure(ferry_ticket &ticket, const error &failed, error_item &failed_copy) noexcept {
    if (failed.status != FERRY_ERROR_FILE) return failed;
    ticket.is_failure_known = true;
    if (ticket.item != FERRY_ITEM_NONE) failed_copy = {ticket.item, failed_index(ticket)};
    return to_error(ticket.progress.failure);
}

// A ticket of an empty copy passes.
error require_file(const ferry_ticket &ticket) noexcept {
    return ticket.has_file || !ticket.passed ? ok
                                             : refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_NONE, FERRY_FIELD_TICKET);
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
        ticket.is_failure_known = true;
        info.file_offset = ticket.progress.failure.offset;
        info.file_error = ticket.progress.failure.code;
        info.file_index = static_cast<std::int32_t>(std::min<std::uint64_t>(failed_index(ticket), INT32_MAX));
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

error wait_for_ticket(ferry_ticket &ticket, std::int64_t timeout_ns, error_item &failed_copy) noexcept {
    ferry_instance &instance = ticket.instance;
    if (instance.fork_mark.is_in_child()) return {.status = no_driver_in_child};
    if (!ticket.passed) return {};
    if (timeout_ns >= 0) {
        ferry_ticket *const only = &ticket;
        std::uint64_t index = 0;
        if (error failed = wait_for_any(&only, 1, timeout_ns, index)) return failed;
    }
    if (ticket.is_staged) {
        const error failed = with_failure(ticket, instance.staging.help(ticket.progress), failed_copy);
        if (failed || !ticket.ends_on_stream) return failed;
    }
    const relaxed_capture_mode relaxed(instance.cu); // a wait would break a capture of another thread
    if (!relaxed.entered()) return relaxed.why();
    status_code status = refuse_destroyed(instance.cu, ticket.owner);
    if (status == FERRY_SUCCESS) status = to_status(instance.cu.cuEventSynchronize(ticket.passed));
    status = noted(instance, status);
    if (status == FERRY_SUCCESS) status = ask_others(ticket);
    if (status == FERRY_SUCCESS) status = ticket.progress.status.load(std::memory_order_relaxed);
    return with_failure(ticket, {.status = status}, failed_copy);
}

error cancel_ticket(ferry_ticket &ticket) noexcept {
    if (ticket.instance.fork_mark.is_in_child()) return in_child;
    if (error failed = require_file(ticket)) return failed;
    ticket.progress.is_cancelled.store(true, std::memory_order_relaxed);
    return {};
}

error write_ticket_status(ferry_ticket &ticket, std::uint64_t address, CUstream stream) noexcept {
    ferry_instance &instance = ticket.instance;
    const driver_table &cu = instance.cu;
    if (instance.fork_mark.is_in_child()) return in_child;
    if (error failed = require_file(ticket)) return failed;
    context_scope scope(cu);
    if (error failed = enter_any(instance, stream, scope)) return failed;
    if (error failed = refuse_events_under_capture(cu, stream)) return failed;
    address_facts facts;
    if (error failed = look_up_address(cu, address, address_query::kind_only, facts)) return failed;
    if (address % sizeof(std::int32_t) != 0 ||
        (facts.kind != memory_kind::device && facts.kind != memory_kind::managed))
        return refuse_value(FERRY_ERROR_ADDRESS, FERRY_SIDE_NONE, FERRY_FIELD_ADDRESS, address);
    if (ticket.is_status_written.exchange(true)) return refuse(FERRY_ERROR_IN_USE, FERRY_SIDE_NONE, FERRY_FIELD_TICKET);
    void *block = nullptr;
    if (error failed = instance.read_buffers.allocate(sizeof(std::int32_t), block)) {
        ticket.is_status_written = false;
        return failed;
    }
    auto *const word = new (block) std::int32_t(0);
    ticket.progress.reflect(word);
    status_code status;
    if (ticket.passed) status = refuse_destroyed(cu, ticket.owner);
    if (ticket.passed && status == FERRY_SUCCESS)
        status = call_optional(cu.cuStreamWaitEvent, stream, ticket.passed, 0u);
    if (status == FERRY_SUCCESS) status = call_optional(cu.cuMemcpyHtoDAsync, address, word, sizeof *word, stream);
    // After a failure the block stays in use, because threads may write to it.
    if (status == FERRY_SUCCESS) static_cast<void>(instance.read_buffers.free_on(stream, block));
    return {.status = noted(instance, status)};
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
