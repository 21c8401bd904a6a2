#include "memory/pinned_pool.h"

#include <algorithm>

#include "base/rounding.h"
#include "device/capture_mode.h"
#include "device/tracked_contexts.h"
#include "driver/result.h"

namespace ferry {

namespace {

constexpr std::uint64_t unit = 4096; // granularity of slabs, on every system
// A class grows by as much as it holds, within these limits. Allocating less than 64 KiB costs as much as 64 KiB, and
// 2 MiB is a huge page.
constexpr std::uint64_t min_slab = 64 << 10, largest_shared_slab = 2 << 20;
// An allocation queries at most this many streams before the pool grows. Growing costs as much as a thousand queries.
constexpr unsigned max_turns = 8;
// While a device has other work, the query of a completed event takes a microsecond, that of an incomplete one a tenth
// (H200, CUDA 13.0). So one query should serve many blocks. It considers at most this many.
constexpr std::size_t max_looked_at = 64;

constexpr error out_of_memory = {.status = FERRY_ERROR_OUT_OF_MEMORY};
constexpr error not_a_block = {.status = FERRY_ERROR_ADDRESS};
constexpr error at_limit = {.status = FERRY_ERROR_LIMIT};
constexpr std::int32_t invalid_handle = to_status(CUDA_ERROR_INVALID_HANDLE);

constexpr std::uint64_t to_units(std::uint64_t size) noexcept { return round_up(size, unit); }

// Returns whether the status of an event means that the work is complete. An event that ended with its context has
// nothing left to wait for. Any other failure proves nothing, and the block keeps waiting.
bool is_over(std::int32_t status) noexcept {
    if (status == FERRY_SUCCESS || status == invalid_handle) return true;
    return status != to_status(CUDA_ERROR_NOT_READY) && tells_of_death(status);
}

// The default stream has two handles. The per-thread stream has one handle, but is a different stream on each thread.
const void *name_of(CUstream stream) noexcept {
    static thread_local const char this_thread = 0;
    if (stream == CU_STREAM_PER_THREAD) return &this_thread;
    return stream ? stream : CU_STREAM_LEGACY;
}

} // namespace

pinned_pool::pinned_pool(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned,
                         const allocator &memory, const host_request &request, int device, std::uint64_t limit,
                         use by) noexcept
    : cu_(cu), contexts_(contexts), pinned_(pinned), memory_(memory), request_(request), device_(device), limit_(limit),
      use_(by), slabs_(memory), events_(memory) {}

// ---- Memory

error pinned_pool::enter_own_context(context_scope &scope, CUcontext &context) noexcept {
    if (error failed = contexts_.get(device_, context)) return failed;
    return scope.enter(context);
}

error pinned_pool::take_memory(std::uint64_t size, slab &made) noexcept {
    context_scope scope(cu_);
    if (error failed = enter_own_context(scope, made.made_in.handle)) return failed;
    made.made_in = name_context(cu_, made.made_in.handle);
    host_request request = request_;
    request.size = size;
    host_block taken = {};
    if (error failed = pinned_.allocate(request, taken)) return failed;
    made.base = reinterpret_cast<std::byte *>(taken.address);
    return {};
}

error pinned_pool::give_memory(const slab &gone) noexcept {
    context_scope scope(cu_);
    CUcontext context = nullptr;
    if (error failed = enter_own_context(scope, context)) return failed;
    const auto address = reinterpret_cast<std::uintptr_t>(gone.base);
    if (!may_live(cu_, gone.made_in)) return pinned_.free_lost(address, host_owner::pool);
    const error failed = pinned_.free(address, host_owner::pool);
    // The driver refuses an address whose memory ended with its context.
    return failed.status == to_status(CUDA_ERROR_INVALID_VALUE) ? ok : failed;
}

// ---- Slabs

std::uint64_t pinned_pool::room() const noexcept {
    const std::uint64_t limit = limit_ ? limit_ : UINT64_MAX;
    return (limit - std::min(limit, reserved_ + growing_)) / unit * unit;
}

std::uint64_t pinned_pool::ready_bytes() const noexcept {
    std::uint64_t bytes = 0;
    for (const slab_place &place : slabs_)
        if (place.there->ready_count == place.there->count) bytes += place.there->size;
    return bytes;
}

void pinned_pool::insert(slab &made) noexcept {
    const slab_place place = {reinterpret_cast<std::uintptr_t>(made.base), &made};
    const slab_place *const after =
        std::upper_bound(slabs_.begin(), slabs_.end(), place.base,
                         [](std::uintptr_t base, const slab_place &there) { return base < there.base; });
    [[maybe_unused]] const bool inserted = slabs_.insert(static_cast<std::size_t>(after - slabs_.begin()), place);
    --unlisted_slabs_; // slabs_ always has room for the unlisted slabs
    class_state &of = classes_[made.block_class];
    of.available.push_front(made);
    of.held += made.size;
}

error pinned_pool::grow(int block_class, lock &held, block *&found) noexcept {
    class_state &of = classes_[block_class];
    const std::uint64_t block_size = block_class_size(block_class);
    if (to_units(block_size) > room()) {
        collect(held);
        if ((found = take_ready(block_class))) return {};
        const std::uint64_t needed = to_units(block_size), left = room(); // other threads may have changed it
        if (needed > left) {
            if (needed - left > ready_bytes()) return at_limit;
            if (error failed = release(needed - left, held)) return failed;
            if (needed > room()) return at_limit; // other threads were faster
        }
    }
    const std::uint64_t wanted = std::max(std::clamp(of.held, min_slab, largest_shared_slab), block_size);
    const std::uint64_t count = std::min(wanted, room()) / block_size, size = to_units(count * block_size);
    const std::uint64_t record_size = sizeof(slab) + count * sizeof(block);
    if (!slabs_.reserve(slabs_.size() + unlisted_slabs_ + 1)) return out_of_memory;
    auto *const made = static_cast<slab *>(memory_.allocate(record_size, alignof(slab)));
    if (!made) return out_of_memory;
    *made = {};
    made->size = size;
    made->block_class = block_class;
    made->context_changes = contexts_.changes();
    made->count = made->ready_count = static_cast<std::uint32_t>(count);
    for (std::uint64_t i = count; i-- > 0;) {
        made->blocks()[i] = {made, made->first_ready, nullptr, block_state::ready};
        made->first_ready = &made->blocks()[i];
    }

    growing_ += size;
    ++unlisted_slabs_;
    held.unlock();
    const error failed = take_memory(size, *made);
    held.lock();
    growing_ -= size;
    if (failed) {
        --unlisted_slabs_;
        memory_.deallocate(made, record_size);
        return failed;
    }
    reserved_ += size;
    reserved_high_ = std::max(reserved_high_, reserved_);
    insert(*made);
    found = take_from(*made);
    return {};
}

error pinned_pool::release(std::uint64_t bytes, lock &held) noexcept {
    chain<slab> gone;
    std::uint64_t taken_out = 0;
    for (std::size_t i = slabs_.size(); i-- > 0 && taken_out < bytes;) {
        slab &one = *slabs_[i].there;
        if (one.ready_count < one.count) continue;
        if (!one.is_set_aside) leave_available(one);
        one.is_set_aside = false;
        slabs_.remove(i);
        ++unlisted_slabs_;
        gone.push_back(one);
        taken_out += one.size;
    }
    error first_failed;
    while (slab *const one = gone.pop()) {
        held.unlock();
        const error failed = give_memory(*one);
        held.lock();
        if (failed) {
            if (!first_failed) first_failed = failed;
            insert(*one);
            continue;
        }
        --unlisted_slabs_;
        reserved_ -= one->size;
        memory_.deallocate(one, sizeof(slab) + one->count * sizeof(block));
    }
    return first_failed;
}

// ---- Blocks

pinned_pool::block *pinned_pool::find_allocated(const void *address) noexcept {
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    const slab_place *const after =
        std::upper_bound(slabs_.begin(), slabs_.end(), wanted,
                         [](std::uintptr_t base, const slab_place &there) { return base < there.base; });
    if (after == slabs_.begin()) return nullptr;
    slab &home = *after[-1].there;
    const std::uint64_t offset = wanted - after[-1].base, block_size = block_class_size(home.block_class);
    if (offset >= home.count * block_size || offset % block_size) return nullptr;
    block &found = home.blocks()[offset / block_size];
    return found.state == block_state::allocated ? &found : nullptr;
}

void pinned_pool::leave_available(slab &one) noexcept {
    class_state &of = classes_[one.block_class];
    of.available.remove(one);
    of.held -= one.size;
}

pinned_pool::block *pinned_pool::take_ready(int block_class) noexcept {
    const class_state &of = classes_[block_class];
    while (slab *const home = of.available.first()) {
        if (!is_outdated(*home)) return take_from(*home);
        leave_available(*home);
        home->is_set_aside = true;
    }
    return nullptr;
}

pinned_pool::block *pinned_pool::take_from(slab &home) noexcept {
    block *const taken = home.first_ready;
    home.first_ready = taken->next_ready;
    if (--home.ready_count == 0) classes_[home.block_class].available.remove(home);
    used_ += block_class_size(home.block_class);
    used_high_ = std::max(used_high_, used_);
    return taken;
}

void pinned_pool::make_ready(block &one) noexcept {
    slab &home = *one.home;
    one.state = block_state::ready;
    one.next_ready = home.first_ready;
    home.first_ready = &one;
    if (home.ready_count++ == 0) classes_[home.block_class].available.push_front(home);
    used_ -= block_class_size(home.block_class);
}

void *pinned_pool::hand_out(block &one) noexcept {
    one.state = block_state::allocated;
    ++allocated_count_;
    slab &home = *one.home;
    return home.base + static_cast<std::uint64_t>(&one - home.blocks()) * block_class_size(home.block_class);
}

// ---- Streams and waiting blocks

error pinned_pool::enter_stream(CUstream stream, context_scope &scope, stream_use &use) noexcept {
    context_choice choice;
    if (error failed = choose_context(cu_, contexts_, stream, -1, choice)) return failed;
    use = {stream, {{choice.wanted, 0}, name_of(stream), 0}};
    if (belongs_to_current_context(stream))
        if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (error failed = refuse_capture(cu_, stream)) return failed;
    if (!cu_.cuStreamGetId) return {};
    const relaxed_capture_mode relaxed(cu_); // the queries below break a capture of this thread (CUDA 13.0)
    if (!relaxed.entered()) return relaxed.why();
    if (cu_.cuStreamGetId(stream, &use.key.number)) use.key.number = 0;
    use.key.context = name_context(cu_, choice.wanted);
    return {};
}

pinned_pool::wait *pinned_pool::first_unasked(const stream_queue &queue) noexcept {
    wait *one = queue.waits.first();
    while (one && one->is_asked)
        one = one->next;
    return one;
}

std::size_t pinned_pool::count_unasked(const stream_queue &queue) noexcept {
    std::size_t count = 0;
    for (const wait *one = queue.waits.first(); one && count < max_looked_at; one = one->next)
        count += !one->is_asked;
    return count;
}

pinned_pool::wait *pinned_pool::unasked_at(const stream_queue &queue, std::size_t index) noexcept {
    wait *one = queue.waits.first();
    while (one->is_asked || index-- > 0)
        one = one->next;
    return one;
}

pinned_pool::stream_queue *pinned_pool::find_queue(const class_state &of, const stream_key &on) noexcept {
    stream_queue *queue = of.queues.first();
    while (queue && queue->on != on)
        queue = queue->next;
    return queue;
}

pinned_pool::context_events *pinned_pool::find_events(const context_name &context) noexcept {
    for (context_events &events : events_)
        if (events.context == context) return &events;
    return nullptr;
}

void pinned_pool::enqueue(block &one, wait &behind) noexcept {
    class_state &of = classes_[one.home->block_class];
    stream_queue *queue = find_queue(of, behind.on);
    if (!queue) {
        queue = spare_queues_.pop();
        queue->on = behind.on;
        of.queues.push_back(*queue);
    }
    behind.held = &one;
    behind.number = next_number_++;
    queue->waits.push_back(behind);
    one.behind = &behind;
    one.state = block_state::waiting;
}

void pinned_pool::dequeue(wait &done) noexcept {
    class_state &of = classes_[done.held->home->block_class];
    stream_queue *const queue = find_queue(of, done.on);
    queue->waits.remove(done);
    if (!queue->waits.is_empty()) return;
    of.queues.remove(*queue);
    spare_queues_.push_front(*queue);
}

void pinned_pool::keep_spare(wait &done) noexcept { find_events(done.on.context)->spare.push_front(done); }

void pinned_pool::drop(wait &dead) noexcept { memory_.deallocate(&dead, sizeof(wait)); }

// Drops events that have ended with their context, without a driver call: other objects may have their handles.
void pinned_pool::forget_events(const context_name &dead) noexcept {
    while (wait *const spare = find_events(dead)->spare.pop())
        drop(*spare);
}

error pinned_pool::make_event(CUcontext context, CUevent &event) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    context_scope scope(cu_);
    if (error failed = scope.enter(context)) return failed;
    return {.status = call_optional(cu_.cuEventCreate, &event, static_cast<unsigned>(CU_EVENT_DISABLE_TIMING))};
}

error pinned_pool::take_wait(const context_name &context, lock &held, wait *&taken, bool &is_new) noexcept {
    context_events *const events = find_events(context);
    if (events && (taken = events->spare.pop())) return {};
    if (!events && !events_.append({context, {}})) return out_of_memory;
    is_new = true;
    auto *const made = static_cast<wait *>(memory_.allocate(sizeof(wait), alignof(wait)));
    auto *const queue = static_cast<stream_queue *>(memory_.allocate(sizeof(stream_queue), alignof(stream_queue)));
    error failed = made && queue ? ok : out_of_memory;
    CUevent event = nullptr;
    if (!failed) {
        held.unlock();
        failed = make_event(context.handle, event);
        held.lock();
    }
    if (failed) {
        memory_.deallocate(made, sizeof(wait));
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
error pinned_pool::record(block &leaving, const stream_use &use, lock &held) noexcept {
    for (;;) {
        const bool is_own = leaving.behind && leaving.behind->on.context == use.key.context;
        bool is_new = false;
        wait *behind = leaving.behind;
        if (!is_own)
            if (error failed = take_wait(use.key.context, held, behind, is_new)) return failed;
        const std::uint64_t began = next_number_++;
        held.unlock();
        const std::int32_t status = call_optional(cu_.cuEventRecord, behind->event, use.stream);
        held.lock();
        if (status == FERRY_SUCCESS) {
            if (!is_own && leaving.behind) keep_spare(*leaving.behind);
            behind->on = use.key;
            behind->began = began; // only on success: otherwise the event still stands for its earlier record
            enqueue(leaving, *behind);
            return {};
        }
        // A reused event may have ended with its context, and another context may have the context's handle now. For a
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

// ---- Finding a block

void pinned_pool::release_before(const wait &done, stream_queue &queue) noexcept {
    for (wait *next = queue.waits.first(); next;) {
        wait &one = *next;
        next = one.next;
        if (one.number >= done.began) return; // recorded later or concurrently, as are all after it
        if (one.is_asked) continue;
        block &passed = *one.held;
        dequeue(one);
        passed.behind = nullptr;
        keep_spare(one);
        make_ready(passed);
    }
}

template <class Question>
std::int32_t pinned_pool::ask_driver(wait &about, lock &held, const Question &question) noexcept {
    about.is_asked = true; // keeps the wait and its queue in place
    held.unlock();
    const context_name &context = about.on.context;
    const bool lives = contexts_.retains(context.handle) || may_live(cu_, context);
    std::int32_t status = lives ? question(about.event) : invalid_handle;
    if (lives && tells_of_death(status)) {
        context_scope scope(cu_);
        const bool is_its_own = !scope.enter(context.handle) && current_context_has_died(cu_);
        if (!is_its_own) status = to_status(CUDA_ERROR_NOT_READY);
    }
    held.lock();
    about.is_asked = false;
    return status;
}

pinned_pool::block *pinned_pool::ask(class_state &of, unsigned &turns, lock &held) noexcept {
    stream_queue *queue = of.queues.first();
    while (queue && !first_unasked(*queue))
        queue = queue->next;
    if (!queue) return turns = 0, nullptr;
    for (std::size_t count = count_unasked(*queue); count > 0; count = std::min(count / 2, count_unasked(*queue))) {
        wait &asked = *unasked_at(*queue, count - 1);
        const std::int32_t status =
            ask_driver(asked, held, [&](CUevent event) noexcept { return call_optional(cu_.cuEventQuery, event); });
        if (!is_over(status)) continue;
        block &done = *asked.held;
        if (status == FERRY_SUCCESS && asked.on.number) release_before(asked, *queue);
        dequeue(asked);
        done.behind = nullptr;
        if (status == invalid_handle) {
            forget_events(asked.on.context);
            drop(asked);
        } else {
            keep_spare(asked);
        }
        return &done;
    }
    of.queues.remove(*queue);
    of.queues.push_back(*queue);
    --turns;
    return nullptr;
}

unsigned pinned_pool::count_queues(const class_state &of) noexcept {
    unsigned count = 0;
    for (const stream_queue *queue = of.queues.first(); queue; queue = queue->next)
        ++count;
    return count;
}

void pinned_pool::collect(lock &held) noexcept {
    for (class_state &of : classes_)
        for (unsigned turns = count_queues(of); turns > 0;)
            if (block *const done = ask(of, turns, held)) make_ready(*done);
}

error pinned_pool::ask_or_grow(int block_class, lock &held, block *&found) noexcept {
    class_state &of = classes_[block_class];
    for (unsigned turns = std::min(count_queues(of), max_turns); turns > 0;) {
        if (!(found = ask(of, turns, held))) continue;
        if (!is_outdated(*found->home)) return {};
        make_ready(*found);
    }
    if ((found = take_ready(block_class))) return {};
    return grow(block_class, held, found);
}

pinned_pool::wait *pinned_pool::oldest(const class_state &of) noexcept {
    wait *found = nullptr;
    for (const stream_queue *queue = of.queues.first(); queue; queue = queue->next) {
        wait *const first = first_unasked(*queue);
        if (first && (!found || first->number < found->number)) found = first;
    }
    return found;
}

error pinned_pool::take_behind(wait &chosen, CUstream stream, lock &held, block *&found) noexcept {
    const std::int32_t status = ask_driver(
        chosen, held, [&](CUevent event) noexcept { return call_optional(cu_.cuStreamWaitEvent, stream, event, 0u); });
    if (status) return {.status = status};
    dequeue(chosen);
    found = chosen.held; // `behind` stays set: earlier work may still use the block, so a free for the host must wait
    return {};
}

error pinned_pool::allocate_for(const stream_use *use, std::uint64_t size, void *&address) noexcept {
    if (size > largest_block) return to_error(CUDA_ERROR_OUT_OF_MEMORY);
    const int block_class = block_class_of(size);
    const class_state &of = classes_[block_class];
    {
        lock held(mutex_);
        block *found = take_ready(block_class);
        if (const stream_queue *const same = use && !found ? find_queue(of, use->key) : nullptr)
            if (wait *const chosen = first_unasked(*same)) take_behind(*chosen, use->stream, held, found);
        if (found) return address = hand_out(*found), ok;
    }
    const relaxed_capture_mode relaxed(cu_); // queries and growth would break a capture on another thread
    if (!relaxed.entered()) return relaxed.why();
    lock held(mutex_);
    block *found = nullptr;
    if (error failed = ask_or_grow(block_class, held, found)) {
        wait *const chosen = use ? oldest(of) : nullptr;
        if (!chosen) return failed;
        if (error not_ordered = take_behind(*chosen, use->stream, held, found)) return not_ordered;
    }
    address = hand_out(*found);
    return {};
}

error pinned_pool::allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept {
    context_scope scope(cu_);
    stream_use use = {};
    if (error failed = enter_stream(stream, scope, use)) return failed;
    return allocate_for(&use, size, address);
}

error pinned_pool::free(void *address) noexcept {
    const std::lock_guard held(mutex_);
    block *const freed = find_allocated(address);
    if (!freed) return not_a_block;
    --allocated_count_;
    // The stream may not have reached the allocation yet, even if nothing was enqueued there since. Until then earlier
    // work may use the block.
    if (freed->behind)
        enqueue(*freed, *freed->behind);
    else
        make_ready(*freed);
    return {};
}

error pinned_pool::free_on(CUstream stream, void *address) noexcept {
    context_scope scope(cu_);
    stream_use use = {};
    if (error failed = enter_stream(stream, scope, use)) return failed;
    lock held(mutex_);
    block *const freed = find_allocated(address);
    if (!freed) return not_a_block;
    freed->state = block_state::leaving;
    if (error failed = record(*freed, use, held)) {
        freed->state = block_state::allocated;
        return failed;
    }
    --allocated_count_;
    return {};
}

// ---- The pool as a whole

error pinned_pool::trim(std::uint64_t keep) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    lock held(mutex_);
    collect(held);
    return reserved_ > keep ? release(reserved_ - keep, held) : ok;
}

error pinned_pool::get_stats(ferry_pool_stats &stats) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    lock held(mutex_);
    collect(held);
    stats.reserved_current = reserved_;
    stats.reserved_high = reserved_high_;
    stats.used_current = used_;
    stats.used_high = used_high_;
    return {};
}

error pinned_pool::reset_stats() noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    lock held(mutex_);
    collect(held);
    reserved_high_ = reserved_;
    used_high_ = used_;
    return {};
}

error pinned_pool::close() noexcept {
    if (allocated_count_ && use_ == use::of_program) return {.status = FERRY_ERROR_IN_USE};
    const relaxed_capture_mode relaxed(cu_); // fails only if the driver is gone
    error first_failed;
    for (class_state &of : classes_)
        while (const stream_queue *const queue = of.queues.first()) {
            wait &passed = *queue->waits.first();
            const std::int32_t status =
                may_live(cu_, passed.on.context) ? call_optional(cu_.cuEventSynchronize, passed.event) : invalid_handle;
            if (!is_over(status) && !first_failed) first_failed = {.status = status};
            dequeue(passed);
            make_ready(*passed.held);
            if (status == invalid_handle) // the event ended with its context
                drop(passed);
            else
                keep_spare(passed);
        }
    for (context_events &events : events_) {
        const bool is_there = may_live(cu_, events.context);
        while (wait *const spare = events.spare.pop()) {
            if (is_there) call_optional(cu_.cuEventDestroy, spare->event);
            drop(*spare);
        }
    }
    while (stream_queue *const queue = spare_queues_.pop())
        memory_.deallocate(queue, sizeof(stream_queue));
    lock held(mutex_);
    const error not_given = release(UINT64_MAX, held);
    for (const slab_place &place : slabs_) { // slabs that could not be released
        // Tries again in whatever context is current, because afterwards there is no record of the slab.
        static_cast<void>(pinned_.free(place.base, host_owner::pool));
        memory_.deallocate(place.there, sizeof(slab) + place.there->count * sizeof(block));
    }
    return first_failed ? first_failed : not_given;
}

} // namespace ferry
