#include "memory/pinned_pool.h"

#include <algorithm>

#include "device/capture_mode.h"

namespace ferry {

namespace {

// An allocation queries at most this many streams before the pool grows. Growing costs as much as a thousand queries.
constexpr unsigned max_turns = 8;

constexpr error not_a_block = {.status = FERRY_ERROR_ADDRESS};
constexpr error at_limit = {.status = FERRY_ERROR_LIMIT};

} // namespace

// ---- Allocation

void *pinned_pool::hand_out(pinned_block &one) noexcept {
    one.state = block_state::allocated;
    ++allocated_count_;
    return pinned_slabs::address_of(one);
}

error pinned_pool::make_room(int block_class, bool may_release, pool_lock &held, pinned_block *&found) noexcept {
    const std::uint64_t needed = pinned_slabs::min_size(block_class);
    if (needed <= slabs_.room()) return {};
    waits_.collect(held);
    if ((found = slabs_.take_ready(block_class))) return {};
    const std::uint64_t left = slabs_.room(); // may differ from an earlier value because of other threads
    if (needed <= left) return {};
    // A release waits for the device, so the instance's own pools avoid it.
    const bool can_release = may_release && needed - left <= slabs_.ready_bytes();
    if (use_ == use::of_instance || !can_release)
        if ((found = slabs_.take_ready_or_larger(block_class))) return {};
    if (can_release)
        if (error failed = slabs_.release(needed - left, held)) return failed;
    if (can_release && needed <= slabs_.room()) return {}; // other threads may have used the space first
    return use_ == use::of_program ? slabs_.refuse(needed) : at_limit;
}

error pinned_pool::find_or_grow(const stream_use *use, int block_class, bool may_grow, pool_lock &held,
                                pinned_block *&found) noexcept {
    for (unsigned turns = std::min(waits_.count_streams(block_class), max_turns); turns > 0;) {
        if (!(found = waits_.find_completed(block_class, turns, held))) continue;
        if (!slabs_.is_outdated(*found->home)) return {};
        slabs_.make_ready(*found);
    }
    if ((found = slabs_.take_ready(block_class))) return {};
    error failed = at_limit;
    if (may_grow) {
        // For a stream, allocate_for takes a block that its stream waits for, so that the host does not wait.
        const bool may_release = use_ == use::of_program || !use || !waits_.oldest(block_class);
        if (error no_room = make_room(block_class, may_release, held, found)) return no_room;
        if (found) return {};
        failed = slabs_.grow(block_class, held, found);
        if (failed.status != FERRY_ERROR_LIMIT) return failed;
    }
    waits_.collect(held); // without growth, or if a budget of the instance refuses it: a release would wait
    return (found = slabs_.take_ready_or_larger(block_class)) ? ok : failed;
}

error pinned_pool::allocate_for(const stream_use *use, std::uint64_t size, bool may_grow, void *&address) noexcept {
    if (size > largest_block) return to_error(CUDA_ERROR_OUT_OF_MEMORY);
    const int block_class = block_class_of(size);
    {
        pool_lock held(mutex_);
        pinned_block *found = slabs_.take_ready(block_class);
        if (block_wait *const same = use && !found ? waits_.first_of(use->key, block_class) : nullptr)
            static_cast<void>(waits_.take_behind(*same, use->stream, held, found));
        if (found) return address = hand_out(*found), ok;
    }
    const relaxed_capture_mode relaxed(cu_); // queries and growth would break a capture of another thread
    if (!relaxed.entered()) return relaxed.why();
    pool_lock held(mutex_);
    pinned_block *found = nullptr;
    if (error failed = find_or_grow(use, block_class, may_grow, held, found)) {
        block_wait *const oldest = use ? waits_.oldest(block_class) : nullptr;
        if (!oldest) return failed;
        if (error not_ordered = waits_.take_behind(*oldest, use->stream, held, found)) return not_ordered;
    }
    address = hand_out(*found);
    return {};
}

error pinned_pool::allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept {
    context_scope scope(cu_);
    stream_use use = {};
    if (error failed = waits_.enter_stream(stream, scope, use)) return failed;
    return allocate_for(&use, size, true, address);
}

bool pinned_pool::has_block(std::uint64_t size) noexcept {
    void *found = nullptr;
    return !allocate(size, found, false) && !free(found);
}

// ---- Release

error pinned_pool::free(void *address) noexcept {
    const std::lock_guard held(mutex_);
    pinned_block *const freed = slabs_.find_allocated(address);
    if (!freed) return not_a_block;
    --allocated_count_;
    // Work on the allocating stream may not have started yet, even if nothing was enqueued there since. Until the
    // stream reaches the allocation, earlier work may use the block.
    if (freed->behind)
        waits_.enqueue(*freed, *freed->behind);
    else
        slabs_.make_ready(*freed);
    return {};
}

error pinned_pool::free_on(CUstream stream, void *address) noexcept {
    context_scope scope(cu_);
    stream_use use = {};
    if (error failed = waits_.enter_stream(stream, scope, use)) return failed;
    pool_lock held(mutex_);
    pinned_block *const freed = slabs_.find_allocated(address);
    if (!freed) return not_a_block;
    freed->state = block_state::leaving;
    if (error failed = waits_.record(*freed, use, held)) {
        freed->state = block_state::allocated;
        return failed;
    }
    --allocated_count_;
    return {};
}

// ---- Operations on the whole pool

error pinned_pool::collect(pool_lock &held) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    held.lock();
    waits_.collect(held);
    return {};
}

error pinned_pool::trim(std::uint64_t keep) noexcept {
    const relaxed_capture_mode relaxed(cu_);
    if (!relaxed.entered()) return relaxed.why();
    pool_lock held(mutex_);
    waits_.collect(held);
    return slabs_.reserved() > keep ? slabs_.release(slabs_.reserved() - keep, held) : ok;
}

error pinned_pool::get_stats(ferry_pool_stats &stats) noexcept {
    pool_lock held(mutex_, std::defer_lock);
    if (error failed = collect(held)) return failed;
    slabs_.get_stats(stats);
    return {};
}

error pinned_pool::reset_stats() noexcept {
    pool_lock held(mutex_, std::defer_lock);
    if (error failed = collect(held)) return failed;
    slabs_.reset_stats();
    return {};
}

error pinned_pool::check_unused(std::uint64_t &held_bytes) noexcept {
    const std::lock_guard held(mutex_);
    held_bytes = slabs_.reserved();
    return allocated_count_ ? error{.status = FERRY_ERROR_IN_USE} : ok;
}

error pinned_pool::close() noexcept {
    if (allocated_count_ && use_ == use::of_program) return {.status = FERRY_ERROR_IN_USE};
    const relaxed_capture_mode relaxed(cu_); // fails only if the driver is unloaded
    const error not_passed = waits_.close();
    pool_lock held(mutex_);
    const error not_released = slabs_.close(held);
    return not_passed ? not_passed : not_released;
}

} // namespace ferry
