// The launches of the staging scheduler, from the free list through their runs and back.
#include "staging/scheduler.h"

#include <utility>

#include "base/threads.h"

namespace ferry {

namespace {

using state = staging_launch::state;

} // namespace

std::atomic<std::uint64_t> copies_in_flight::of_all_ = 0;

// ---- The mutex

// Spins at first: threads hold the mutex for less than a microsecond at a time. A thread that slept for the mutex would
// be late, and the holder would have to wake it.
void staging_scheduler::lock_again(lock &held) noexcept {
    constexpr int patience = 200; // some microseconds
    for (int i = 0; i < patience; ++i) {
        if (held.try_lock()) return;
        relax_processor();
    }
    held.lock();
}

staging_scheduler::lock staging_scheduler::acquire() noexcept {
    lock held(mutex_, std::defer_lock);
    lock_again(held);
    return held;
}

// ---- The free list

void staging_scheduler::add(staging_launch &made) noexcept {
    const lock held = acquire();
    put_on_free_list(made);
}

void staging_scheduler::put_on_free_list(staging_launch &launch) noexcept {
    launch.at = state::unused;
    unused_.push_front(launch);
    ++unused_count_;
}

staging_launch *staging_scheduler::take(std::uint64_t count, bool is_captured) noexcept {
    const lock held = acquire();
    if (unused_count_ < count) recycle();
    if (unused_count_ < count) return nullptr;
    staging_launch *taken = nullptr;
    unused_count_ -= count;
    (is_captured ? captured_ : pending_) += count;
    for (; count != 0; --count) {
        staging_launch &launch = *unused_.pop();
        launch.at = state::taken;
        launch.is_captured = is_captured;
        launch.is_lost = false;
        launch.runs_expected = 0;
        ++launch.use;
        launch.next_launch = std::exchange(taken, &launch);
    }
    return taken;
}

void staging_scheduler::recycle() noexcept {
    for (staging_launch *next = leaving_.first(); next;) {
        staging_launch &launch = *next;
        next = launch.next;
        if (!has_left(launch)) continue;
        leaving_.remove(launch);
        --leaving_count_;
        put_on_free_list(launch);
    }
}

// ---- From the launch to its end

void staging_scheduler::withdraw(staging_launch &launch, bool will_be_announced) noexcept {
    const lock held = acquire();
    if (launch.is_lost) return;
    (launch.is_captured ? captured_ : pending_) -= 1;
    report_end(launch);
    if (launch.at == state::expected) {
        expected_.remove(launch);
        --ahead_;
    } else if (will_be_announced) {
        launch.at = state::withdrawn;
        return;
    }
    put_on_free_list(launch);
}

void staging_scheduler::keep(staging_launch &launch, std::uint64_t use) noexcept {
    const lock held = acquire();
    if (launch.use != use || launch.at != state::taken) return; // it has been announced already, or is over
    launch.at = state::launched;
    launched_.push_back(launch);
}

void staging_scheduler::release_captured(staging_launch &first) noexcept {
    const lock held = acquire();
    for (staging_launch *next = &first; next;) {
        staging_launch &launch = *next;
        next = launch.next_launch;
        if (launch.is_lost) continue;
        captured_ -= launch.at != state::withdrawn;
        if (launch.at == state::running) { // only for a moment more
            pending_ -= launch.runs_expected - 1;
            launch.runs_expected = 1;
            launch.is_captured = false;
            continue;
        }
        // The expected runs do not come: the kernel was disabled.
        if (launch.at == state::expected) {
            expected_.remove(launch);
            --ahead_;
            pending_ -= launch.runs_expected;
        }
        if (launch.at == state::launched) launched_.remove(launch);
        launch.at = state::leaving;
        leaving_.push_back(launch);
        ++leaving_count_;
    }
}

void staging_scheduler::expect_one(staging_launch &launch) noexcept {
    if (launch.at == state::withdrawn) {
        if (!launch.is_captured) put_on_free_list(launch); // a captured launch may be announced again
        return;
    }
    if (launch.is_lost) return;
    if (launch.is_captured) pending_ += 1;
    ++launch.runs_expected;
    ++announced_;
    if (launch.at == state::launched) launched_.remove(launch);
    if (launch.at == state::taken || launch.at == state::launched) {
        launch.at = state::expected;
        expected_.push_back(launch);
        ++ahead_;
    }
}

// Wakes a server to look for work, unless one is idle or called. A server that is awake but not idle is at a copy, or
// does not look for a while.
void staging_scheduler::wake_watcher() noexcept {
    if (idle_ + called_ == 0) wake(1);
}

void staging_scheduler::expect(staging_launch &launch) noexcept {
    lock held = acquire();
    expect_one(launch);
    wake_watcher();
    unlock(held);
}

void staging_scheduler::expect_all(staging_launch &first) noexcept {
    lock held = acquire();
    for (staging_launch *launch = &first; launch; launch = launch->next_launch)
        expect_one(*launch);
    wake_watcher();
    unlock(held);
}

void staging_scheduler::look_for_arrivals(std::uint64_t now) noexcept {
    looked_ns_ = now;
    for (staging_launch *next = expected_.first(); next;) {
        staging_launch &launch = *next;
        next = launch.next;
        if (has_come(launch)) begin_run(launch);
    }
}

void staging_scheduler::begin_run(staging_launch &launch) noexcept {
    expected_.remove(launch);
    running_.push_back(launch);
    launch.at = state::running;
    launch.next_chunk = launch.first_chunk;
    launch.chunks_left = launch.end_chunk - launch.first_chunk;
    launch.bytes_done = 0;
    launch.stuck = 0;
    ++launch.buffers->copies;
    launch.buffers->update_share();
    const std::uint32_t helpers = launch.blocks - 1, awake = idle_ + called_;
    if (helpers > awake) wake(helpers - awake);
}

void staging_scheduler::end_run(staging_launch &launch) noexcept {
    running_.remove(launch);
    --ahead_;
    --launch.buffers->copies;
    launch.buffers->update_share();
}

void staging_scheduler::report_end(staging_launch &launch) noexcept {
    if (staged_progress *const progress = std::exchange(launch.progress, nullptr))
        progress->launches_left.fetch_sub(1, std::memory_order_release);
}

bool staging_scheduler::end_if_done(staging_launch &launch) noexcept {
    if (launch.busy != 0 || launch.chunks_left.load(std::memory_order_acquire) != 0) return false;
    for (std::uint32_t block = 0; block < launch.blocks; ++block)
        give_back_slots(launch, launch.channels[block]);
    report_end(launch); // first: a thread that waits for the stream may take the end of the kernel for the copy's end
    publish_end(launch);
    end_run(launch);
    --launch.runs_expected;
    pending_ -= 1;
    if (!launch.is_captured) {
        launch.at = state::leaving;
        leaving_.push_back(launch);
        ++leaving_count_;
    } else if (launch.runs_expected != 0) {
        launch.at = state::expected;
        expected_.push_back(launch);
        ++ahead_;
    } else {
        launch.at = state::launched;
        launched_.push_back(launch);
    }
    return true;
}

// ---- What there is

// Running launches with stuck workers do not count: a stuck worker goes on with its copy when it can, and nobody has to
// look for that.
bool staging_scheduler::has_work() const noexcept {
    if (!expected_.is_empty()) return true;
    if (!is_any_stuck_) return !running_.is_empty();
    for (const staging_launch *launch = running_.first(); launch; launch = launch->next)
        if (launch->stuck == 0) return true;
    return false;
}

staging_scheduler::outlook staging_scheduler::look_ahead() noexcept {
    const lock held = acquire();
    recycle();
    return {pending_, leaving_count_, captured_};
}

// A copy lasts as long as its last launch, so only that launch counts. Captured launches all count: they are announced
// one after the other, as they come.
staging_scheduler::load staging_scheduler::in_flight() noexcept {
    const lock held = acquire();
    load found;
    for (const chain<staging_launch> *const launches : {&launched_, &expected_, &running_})
        for (const staging_launch *launch = launches->first(); launch; launch = launch->next) {
            const std::uint32_t runs = launch->is_captured ? launch->runs_expected : 1;
            const std::uint64_t bytes =
                launch->cut->bytes_before(launch->end_chunk) - launch->cut->bytes_before(launch->first_chunk);
            found.copies += launch->is_captured || !launch->next_launch ? runs : 0;
            found.bytes += runs * bytes - (launch->at == state::running ? launch->bytes_done.load() : 0);
            found.busy += launch->busy;
        }
    return found;
}

} // namespace ferry
