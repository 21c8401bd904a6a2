#include "links/lanes.h"

#include <memory>
#include <new>
#include <utility>

#include "driver/result.h"
#include "system/threads.h"

namespace ferry {

namespace {

bool is_same_stream(const stream_key &one, const stream_key &other) noexcept { return one.number != 0 && one == other; }

// An unreported number does not distinguish contexts.
bool is_same_context(const context_name &one, const context_name &other) noexcept {
    return one.handle == other.handle && (one.number == other.number || one.number == 0 || other.number == 0);
}

} // namespace

lane_set::~lane_set() {
    for (const std::atomic<lane *> &place : all_)
        if (lane *const one = place.load(std::memory_order_relaxed)) {
            std::destroy_at(one);
            memory_.deallocate(one, sizeof(lane));
        }
}

// A status that reports the end of the context also ends the wait, because the lane is then never used again.
bool lane_set::is_done(const lane &one) const noexcept {
    if (one.is_unmarked) return call_optional(cu_.cuStreamQuery, one.stream) != to_status(CUDA_ERROR_NOT_READY);
    return !one.is_used || cu_.cuEventQuery(one.last) != CUDA_ERROR_NOT_READY;
}

error lane_set::take(CUcontext context, const stream_key &user, bool as_helper, bool may_make, lane *&taken) noexcept {
    taken = nullptr;
    const relaxed_capture_mode relaxed(cu_); // queries and creation would break a capture of another thread
    if (!relaxed.entered()) return relaxed.why();
    const context_name here = name_context(cu_, context);
    unsigned at_work = 0;
    lane *unmade = nullptr;
    taken = find(here, user, as_helper, at_work, unmade);
    const bool must_make = !taken && at_work < max_at_work;
    if (must_make && may_make) taken = unmade ? unmade : add();
    if (unmade && unmade != taken) release(*unmade);
    if (!taken) return {.status = must_make && !may_make ? FERRY_ERROR_WOULD_BLOCK : FERRY_ERROR_LIMIT};
    taken->user = user;
    taken->user_in.store(context, std::memory_order_relaxed);
    if (taken->owner.handle) {
        if ((taken->is_waited_for || taken->is_left_behind) && is_done(*taken)) {
            taken->is_waited_for = taken->is_left_behind = false;
            taken->reached.store(0, std::memory_order_relaxed);
        }
    } else if (error failed = make(*taken, context)) {
        release(*std::exchange(taken, nullptr));
        return failed;
    }
    taken->user_number.store(user.number, std::memory_order_release);
    return {};
}

// Finds and takes a lane of the same stream that has no work of helpers for which the stream does not wait, or else a
// lane whose work is complete. `unmade`: a taken lane without a stream.
lane *lane_set::find(const context_name &here, const stream_key &user, bool as_helper, unsigned &at_work,
                     lane *&unmade) noexcept {
    lane *idle = nullptr;
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one) break;
        if (one->is_taken.exchange(true, std::memory_order_acquire)) {
            at_work += one->user_in.load(std::memory_order_relaxed) == here.handle;
            continue;
        }
        if (one->owner.handle == here.handle && !is_same_context(one->owner, here)) end(*one);
        const bool is_here = is_same_context(one->owner, here);
        if (is_here && is_same_stream(one->user, user) && (as_helper || !one->is_left_behind || is_done(*one))) {
            if (idle) release(*idle);
            return one;
        }
        const bool is_free = is_here && !idle && is_done(*one);
        at_work += is_here && !idle && !is_free;
        if (is_free)
            idle = one;
        else if (!one->owner.handle && !unmade)
            unmade = one;
        else
            release(*one);
    }
    return idle;
}

std::uint64_t lane_set::devices_at_work(const stream_key &user, int device_of_user) noexcept {
    static_assert(device_contexts::max_devices <= 64);
    const relaxed_capture_mode relaxed(cu_);
    std::uint64_t devices = 0;
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one || !relaxed.entered()) break;
        // Another thread that searches for a lane holds each lane for a short time.
        bool is_mine = false, is_users = false, is_elsewhere = false;
        for (int tries = 0; tries < 1000 && !is_mine && !is_users; ++tries) {
            is_mine = !one->is_taken.exchange(true, std::memory_order_acquire);
            is_users = !is_mine && user.number != 0 && one->user_number.load(std::memory_order_acquire) == user.number;
            is_elsewhere = is_users && one->user_in.load(std::memory_order_relaxed) != user.context.handle;
        }
        CUresult result = is_users ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
        if (is_mine) {
            is_elsewhere = one->owner.handle != user.context.handle;
            is_users = one->owner.handle && one->is_used && one->is_waited_for && is_same_stream(one->user, user) &&
                       may_live(cu_, one->owner);
            if (is_users) result = cu_.cuEventQuery(one->last);
        }
        if (result) devices |= one->reached.load(std::memory_order_relaxed) & ~(std::uint64_t{1} << device_of_user);
        if (result && is_elsewhere) devices |= std::uint64_t{1} << one->device.load(std::memory_order_relaxed);
        if (!is_mine) continue;
        if (result && result != CUDA_ERROR_NOT_READY && is_elsewhere) one->is_used = false;
        release(*one);
    }
    return devices;
}

// Adds a taken lane. Returns null if the limit is reached or memory runs out.
lane *lane_set::add() noexcept {
    void *const place = memory_.allocate(sizeof(lane), alignof(lane));
    if (!place) return nullptr;
    auto *const added = new (place) lane;
    added->is_taken.store(true, std::memory_order_relaxed);
    for (std::atomic<lane *> &free : all_) {
        lane *expected = nullptr;
        if (free.compare_exchange_strong(expected, added, std::memory_order_acq_rel)) return added;
    }
    std::destroy_at(added);
    memory_.deallocate(added, sizeof(lane));
    return nullptr;
}

// The lane's context has ended, together with its stream and events. Another device may still be filling the slots, so
// freeing them waits.
void lane_set::end(lane &one) noexcept {
    one.owner = {};
    static_cast<void>(free_slots(one));
}

error lane_set::make(lane &made, CUcontext context) noexcept {
    made.stream = nullptr;
    made.last = nullptr;
    made.is_used = made.is_unmarked = made.is_waited_for = made.is_left_behind = false;
    made.reached.store(0, std::memory_order_relaxed);
    for (unsigned i = 0; i < lane::slots; ++i)
        made.filled[i] = made.emptied[i] = nullptr;
    made.owner = name_context(cu_, context);
    int device = 0;
    call_result result = cu_.cuCtxGetDevice(&device);
    made.device.store(device, std::memory_order_relaxed);
    if (result == CUDA_SUCCESS) result = cu_.cuStreamCreateWithPriority(&made.stream, CU_STREAM_NON_BLOCKING, 0);
    const auto make_event = [&](CUevent &event) noexcept {
        if (result == CUDA_SUCCESS) result = cu_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    };
    make_event(made.last);
    for (unsigned i = 0; i < lane::slots; ++i) {
        make_event(made.filled[i]);
        make_event(made.emptied[i]);
    }
    if (result) destroy(made);
    return to_error(result);
}

void lane_set::destroy(lane &one) noexcept {
    const auto destroy_event = [&](CUevent event) noexcept {
        if (event) cu_.cuEventDestroy(event);
    };
    for (unsigned i = 0; i < lane::slots; ++i) {
        destroy_event(one.filled[i]);
        destroy_event(one.emptied[i]);
    }
    destroy_event(one.last);
    if (one.stream) cu_.cuStreamDestroy(one.stream);
    one.owner = {};
}

error lane_set::provide_slots(lane &taken, int device) noexcept {
    if (taken.memory) return {};
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    CUcontext primary = nullptr; // lives as long as the instance, whereas contexts of the program may not
    if (error failed = contexts_.get_primary(device, primary)) return failed;
    context_scope scope(cu_);
    if (error failed = scope.enter(primary)) return failed;
    constexpr std::uint64_t size = lane::slots * lane::max_slot, least = lane::slots * min_slot;
    if (error failed =
            taken.memory.allocate(cu_, pinned_, size, least, devices_[device].info.numa_node, host_owner::links))
        return failed;
    taken.slot_size = taken.memory.block.size / lane::slots / min_slot * min_slot;
    return {};
}

error lane_set::free_slots(lane &one) noexcept {
    const error failed = one.memory.free(cu_, contexts_, pinned_);
    if (!failed) one.slot_size = 0;
    return failed;
}

error lane_set::trim() noexcept {
    if (!all_[0].load(std::memory_order_acquire)) return {};
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    error failed;
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one) break;
        if (one->is_taken.exchange(true, std::memory_order_acquire)) continue;
        if (one->owner.handle && !may_live(cu_, one->owner)) one->owner = {}; // destroyed with its context
        const bool is_idle = !one->owner.handle || is_done(*one);
        const error kept = one->memory && is_idle ? free_slots(*one) : ok;
        if (!failed) failed = kept;
        release(*one);
    }
    return failed;
}

error lane_set::join(lane &by, CUstream stream, CUstream later) noexcept {
    by.is_left_behind |= later == stream;
    const error failed = mark(by, stream);
    return failed || later == stream ? failed : follow(by, later);
}

error lane_set::mark(lane &by, CUstream stream) noexcept {
    const call_result result = cu_.cuEventRecord(by.last, stream);
    by.is_unmarked = result != CUDA_SUCCESS;
    by.is_used |= !by.is_unmarked;
    return to_error(result);
}

error lane_set::follow(lane &by, CUstream later) noexcept {
    by.is_waited_for = true;
    return to_error(cu_.cuStreamWaitEvent(later, by.last, 0));
}

error lane_set::join_or_wait(lane &one, CUstream later) noexcept {
    const error refused = join(one, one.stream, later);
    if (!refused) return {};
    const relaxed_capture_mode relaxed(cu_);
    context_scope scope(cu_);
    if (relaxed.entered() && !scope.enter(one.context())) cu_.cuStreamSynchronize(one.stream);
    return refused;
}

void lane_set::wait_for_others(CUcontext context, function_ref<bool()> is_over) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one || !relaxed.entered()) return;
        // The copy that has the lane may be one to wait for. Other copies may wait for streams of the program.
        for (bool is_awaited = true; is_awaited; rest_for(20'000)) {
            if (is_over()) return;
            if (one->is_taken.exchange(true, std::memory_order_acquire)) continue;
            is_awaited = one->is_left_behind && one->owner.handle && one->owner.handle != context &&
                         may_live(cu_, one->owner) && !is_done(*one);
            release(*one);
            if (!is_awaited) break;
        }
    }
}

void lane_set::forget(CUcontext context) noexcept {
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one) return;
        if (one->is_taken.exchange(true, std::memory_order_acquire)) continue;
        if (one->owner.handle == context) end(*one);
        release(*one);
    }
}

void lane_set::close() noexcept {
    for (const std::atomic<lane *> &place : all_) {
        lane *const one = place.load(std::memory_order_acquire);
        if (!one) return;
        if (one->owner.handle && may_live(cu_, one->owner)) {
            if (!is_done(*one)) cu_.cuStreamSynchronize(one->stream);
            destroy(*one);
        }
        static_cast<void>(free_slots(*one));
    }
}

} // namespace ferry
