#include "memory/pinned_waits.h"

#include <algorithm>

#include "device/capture_mode.h"
#include "device/tracked_contexts.h"
#include "driver/result.h"

namespace ferry {

namespace {

// While a device has other work, querying a completed event takes a microsecond, and querying an incomplete event takes
// a tenth of that (H200, CUDA 13.0). So one query should serve many blocks: up to this many.
constexpr std::size_t max_covered = 64;

// Returns whether the status of an event means that the work is complete. If the event was destroyed with its context,
// there is nothing left to wait for. Any other failure proves nothing, and the block keeps waiting.
bool is_over(std::int32_t status) noexcept {
    if (status == FERRY_SUCCESS || status == invalid_handle) return true;
    return status != to_status(CUDA_ERROR_NOT_READY) && means_dead_context(status);
}

} // namespace

error pinned_waits::enter_stream(CUstream stream, context_scope &scope, stream_use &use) noexcept {
    context_choice choice;
    if (error failed = choose_context(cu_, contexts_, stream, -1, choice)) return failed;
    if (belongs_to_current_context(stream))
        if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (error failed = refuse_events_under_capture(cu_, stream)) return failed;
    use.stream = stream;
    return name_stream(cu_, choice.wanted, stream, use.key);
}

// ---- Queues

block_wait *pinned_waits::first_unqueried(const stream_queue &queue) noexcept {
    block_wait *one = queue.waits.first();
    while (one && one->is_queried)
        one = one->next;
    return one;
}

std::size_t pinned_waits::count_unqueried(const stream_queue &queue) noexcept {
    std::size_t count = 0;
    for (const block_wait *one = queue.waits.first(); one && count < max_covered; one = one->next)
        count += !one->is_queried;
    return count;
}

block_wait *pinned_waits::unqueried_at(const stream_queue &queue, std::size_t index) noexcept {
    block_wait *one = queue.waits.first();
    while (one->is_queried || index-- > 0)
        one = one->next;
    return one;
}

block_wait *pinned_waits::first_of(const stream_key &on, int block_class) const noexcept {
    const stream_queue *const queue = find_queue(queues_[block_class], on);
    return queue ? first_unqueried(*queue) : nullptr;
}

stream_queue *pinned_waits::find_queue(const chain<stream_queue> &queues, const stream_key &on) noexcept {
    stream_queue *queue = queues.first();
    while (queue && queue->on != on)
        queue = queue->next;
    return queue;
}

unsigned pinned_waits::count_streams(int block_class) const noexcept {
    unsigned count = 0;
    for (const stream_queue *queue = queues_[block_class].first(); queue; queue = queue->next)
        ++count;
    return count;
}

block_wait *pinned_waits::oldest(int block_class) const noexcept {
    block_wait *found = nullptr;
    for (const stream_queue *queue = queues_[block_class].first(); queue; queue = queue->next) {
        block_wait *const first = first_unqueried(*queue);
        if (first && (!found || first->number < found->number)) found = first;
    }
    return found;
}

void pinned_waits::enqueue(pinned_block &one, block_wait &behind) noexcept {
    chain<stream_queue> &queues = queues_[one.home->block_class];
    stream_queue *queue = find_queue(queues, behind.on);
    if (!queue) {
        queue = spare_queues_.pop();
        queue->on = behind.on;
        queues.push_back(*queue);
    }
    behind.held = &one;
    behind.number = next_number_++;
    queue->waits.push_back(behind);
    one.behind = &behind;
    one.state = block_state::waiting;
}

void pinned_waits::dequeue(block_wait &done) noexcept {
    chain<stream_queue> &queues = queues_[done.held->home->block_class];
    stream_queue *const queue = find_queue(queues, done.on);
    queue->waits.remove(done);
    if (!queue->waits.is_empty()) return;
    queues.remove(*queue);
    spare_queues_.push_front(*queue);
}

// ---- Events

pinned_waits::context_events *pinned_waits::find_events(const context_name &context) noexcept {
    for (context_events &events : events_)
        if (events.context == context) return &events;
    return nullptr;
}

void pinned_waits::keep_spare(block_wait &done) noexcept { find_events(done.on.context)->spare.push_front(done); }

void pinned_waits::drop(block_wait &dead) noexcept { memory_.deallocate(&dead, sizeof(block_wait)); }

// Drops events that were destroyed with their context, without a driver call: their handles may refer to other objects.
void pinned_waits::forget_events(const context_name &dead) noexcept {
    while (block_wait *const spare = find_events(dead)->spare.pop())
        drop(*spare);
}

error pinned_waits::make_event(CUcontext context, CUevent &event) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    context_scope scope(cu_);
    if (error failed = scope.enter(context)) return failed;
    return {.status = call_optional(cu_.cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING))};
}

error pinned_waits::take_wait(const context_name &context, pool_lock &held, block_wait *&taken, bool &is_new) noexcept {
    context_events *const events = find_events(context);
    if (events && (taken = events->spare.pop())) return {};
    if (!events && !events_.append({context, {}})) return no_memory;
    is_new = true;
    auto *const made = static_cast<block_wait *>(memory_.allocate(sizeof(block_wait), alignof(block_wait)));
    auto *const queue = static_cast<stream_queue *>(memory_.allocate(sizeof(stream_queue), alignof(stream_queue)));
    error failed = made && queue ? ok : no_memory;
    CUevent event = nullptr;
    if (!failed) {
        held.unlock();
        failed = make_event(context.handle, event);
        held.lock();
    }
    if (failed) {
        memory_.deallocate(made, sizeof(block_wait));
        memory_.deallocate(queue, sizeof(stream_queue));
        return failed;
    }
    *queue = {};
    spare_queues_.push_front(*queue);
    *made = {};
    made->event = event;
    made->on.context = context;
    taken = made;
    return {};
}

// A block from take_behind still has an event. If that event belongs to the stream's context, it is recorded again.
error pinned_waits::record(pinned_block &leaving, const stream_use &use, pool_lock &held) noexcept {
    for (;;) {
        const bool is_own = leaving.behind && leaving.behind->on.context == use.key.context;
        bool is_new = false;
        block_wait *behind = leaving.behind;
        if (!is_own)
            if (error failed = take_wait(use.key.context, held, behind, is_new)) return failed;
        const std::uint64_t began = next_number_++;
        held.unlock();
        const status_code status = call_optional(cu_.cuEventRecord, behind->event, use.stream);
        held.lock();
        if (status == FERRY_SUCCESS) {
            if (!is_own && leaving.behind) keep_spare(*leaving.behind);
            behind->on = use.key;
            behind->began = began; // set only on success: otherwise the event still represents its earlier record
            enqueue(leaving, *behind);
            return {};
        }
        // A reused event may have been destroyed with its context, and a new context may have the same handle. For a
        // new event the error is real.
        if (status != invalid_handle || is_new) {
            if (!is_own) keep_spare(*behind);
            return {.status = status};
        }
        if (is_own) leaving.behind = nullptr;
        drop(*behind);
        forget_events(use.key.context);
    }
}

// ---- Queries

template <class Call>
std::optional<status_code> pinned_waits::call_unlocked(block_wait &wait, pool_lock &held, const Call &call) noexcept {
    wait.is_queried = true; // keeps the wait and its queue in place
    held.unlock();
    const context_name &context = wait.on.context;
    std::optional<status_code> status;
    if (contexts_.retains(context.handle) || may_live(cu_, context)) status = call(wait.event);
    held.lock();
    wait.is_queried = false;
    return status;
}

// The driver can report the death of another context. That says nothing about the event.
status_code pinned_waits::query(const context_name &context, CUevent event) noexcept {
    const status_code status = call_optional(cu_.cuEventQuery, event);
    if (!means_dead_context(status)) return status;
    context_scope scope(cu_);
    const bool is_its_own = !scope.enter(context.handle) && current_context_has_died(cu_);
    return is_its_own ? status : status_code(to_status(CUDA_ERROR_NOT_READY));
}

pinned_block &pinned_waits::end(block_wait &done, bool is_event_gone) noexcept {
    pinned_block &block = *done.held;
    dequeue(done);
    block.behind = nullptr;
    if (!is_event_gone) return keep_spare(done), block;
    forget_events(done.on.context);
    drop(done);
    return block;
}

void pinned_waits::release_before(const block_wait &done, stream_queue &queue) noexcept {
    for (block_wait *next = queue.waits.first(); next;) {
        block_wait &one = *next;
        next = one.next;
        if (one.number >= done.began) return; // recorded later or concurrently, as are all waits after it
        if (one.is_queried) continue;
        slabs_.make_ready(end(one, false));
    }
}

pinned_block *pinned_waits::find_completed(int block_class, unsigned &turns, pool_lock &held) noexcept {
    chain<stream_queue> &queues = queues_[block_class];
    stream_queue *queue = queues.first();
    while (queue && !first_unqueried(*queue))
        queue = queue->next;
    if (!queue) return turns = 0, nullptr;
    for (std::size_t count = count_unqueried(*queue); count > 0; count = std::min(count / 2, count_unqueried(*queue))) {
        block_wait &queried = *unqueried_at(*queue, count - 1);
        const status_code status = call_unlocked(queried, held, [&](CUevent event) noexcept {
                                       return query(queried.on.context, event);
                                   }).value_or(status_code(invalid_handle));
        if (!is_over(status)) continue;
        if (status == FERRY_SUCCESS && queried.on.number) release_before(queried, *queue);
        return &end(queried, status == invalid_handle);
    }
    queues.remove(*queue);
    queues.push_back(*queue);
    --turns;
    return nullptr;
}

void pinned_waits::collect(pool_lock &held) noexcept {
    for (int block_class = 0; block_class < block_class_count; ++block_class)
        for (unsigned turns = count_streams(block_class); turns > 0;)
            if (pinned_block *const done = find_completed(block_class, turns, held)) slabs_.make_ready(*done);
}

error pinned_waits::take_behind(block_wait &chosen, CUstream stream, pool_lock &held, pinned_block *&found) noexcept {
    const std::optional<status_code> status = call_unlocked(
        chosen, held, [&](CUevent event) noexcept { return call_optional(cu_.cuStreamWaitEvent, stream, event, 0u); });
    if (!status) return found = &end(chosen, true), ok; // the work ended with its context
    if (*status) return {.status = *status};
    dequeue(chosen);
    found = chosen.held; // `behind` stays set: earlier work may still use the block, so a free for the host must wait
    return {};
}

error pinned_waits::close() noexcept {
    error first_failed;
    for (const chain<stream_queue> &queues : queues_)
        while (const stream_queue *const queue = queues.first()) {
            block_wait &passed = *queue->waits.first();
            const status_code status = may_live(cu_, passed.on.context)
                                           ? call_optional(cu_.cuEventSynchronize, passed.event)
                                           : status_code(invalid_handle);
            if (!is_over(status) && !first_failed) first_failed = {.status = status};
            dequeue(passed);
            slabs_.make_ready(*passed.held);
            if (status == invalid_handle) // the event was destroyed with its context
                drop(passed);
            else
                keep_spare(passed);
        }
    for (context_events &events : events_) {
        const bool is_there = may_live(cu_, events.context);
        while (block_wait *const spare = events.spare.pop()) {
            if (is_there) call_optional(cu_.cuEventDestroy, spare->event);
            drop(*spare);
        }
    }
    while (stream_queue *const queue = spare_queues_.pop())
        memory_.deallocate(queue, sizeof(stream_queue));
    return first_failed;
}

} // namespace ferry
