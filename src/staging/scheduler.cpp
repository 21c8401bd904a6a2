// The launches of the staging scheduler, from the free list through their runs and back.
#include "staging/scheduler.h"

#include <algorithm>
#include <utility>

#include "system/threads.h"

namespace ferry {

std::atomic<std::uint64_t> copies_in_flight::of_all_ = 0;
std::atomic<bool> copies_in_flight::are_untracked_ = false;

staging_scheduler::lock staging_scheduler::acquire() noexcept {
    lock held(mutex_, std::defer_lock);
    lock_patiently(held);
    return held;
}

// ---- The free list

void staging_scheduler::add(staging_launch &made) noexcept {
    const lock held = acquire();
    launches_.add(made);
}

staging_launch *staging_scheduler::take(std::uint64_t count, bool is_captured, bool have_lists) noexcept {
    const lock held = acquire();
    const staging_launch *const without_list = launches_.last(launch_state::unused);
    if (have_lists || launches_.count(launch_state::unused) < count || without_list->list.has_memory()) recycle();
    if (launches_.count(launch_state::unused) < count) return nullptr;
    staging_launch *taken = nullptr;
    (is_captured ? captured_ : pending_) += count;
    for (; count != 0; --count) {
        staging_launch &launch =
            *(have_lists ? launches_.first(launch_state::unused) : launches_.last(launch_state::unused));
        launches_.move(launch, launch_state::taken);
        launch.is_captured = is_captured;
        launch.shared.is_lost = false;
        launch.shared.is_cut_short = false;
        launch.runs_expected = 0;
        ++launch.use;
        launch.next_of_copy = std::exchange(taken, &launch);
    }
    return taken;
}

bool staging_scheduler::has_unused() noexcept {
    const lock held = acquire();
    recycle();
    return launches_.count(launch_state::unused) != 0;
}

void staging_scheduler::recycle() noexcept {
    launches_.for_each({launch_state::leaving}, [&](staging_launch &launch) noexcept {
        if (!has_left(launch)) return;
        if (launch.missed_ns) note_arrival(launch);
        launches_.move(launch, launch_state::unused);
    });
}

// ---- From the launch to its end

void staging_scheduler::withdraw(staging_launch &launch, bool will_be_announced) noexcept {
    const lock held = acquire();
    if (launch.shared.is_lost) return;
    (launch.is_captured ? captured_ : pending_) -= 1;
    report_end(launch);
    const bool is_announced = launch.state == launch_state::expected;
    for (std::uint32_t block = 0; launch.work.by_copies && block < launch.work.blocks; ++block)
        while (launch.record.channels[block].idle_count != 0)
            return_slot(launch, launch.record.channels[block]);
    launches_.move(launch, will_be_announced && !is_announced ? launch_state::withdrawn : launch_state::unused);
}

void staging_scheduler::cut_short(staging_launch &launch, std::uint64_t arriving) noexcept {
    {
        const lock held = acquire();
        if (launch.shared.is_lost) return;
        const std::uint64_t missing = launch.work.end_chunk - arriving;
        launch.shared.copies_enqueued = arriving;
        launch.shared.is_cut_short = true;
        launch.shared.next_chunk += missing;
        launch.shared.chunks_left -= missing;
    }
    // After this, the launch is dead and not reused. The program may free its memory once the stream has completed the
    // copy, and the stream waits only for the chunks before `arriving`.
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block)
        launch.record.channels[block].wait_until_back();
}

// ---- Cancelled launches

void staging_scheduler::cancel(staging_launch &launch) noexcept {
    const lock held = acquire();
    launch.announced_ns = launch.missed_ns = clock_ns();
    ++launch.work.buffers->cancelled;
    publish_end(launch);
    pending_ -= 1;
    launches_.move(launch, launch_state::leaving);
}

// The kernel of a cancelled launch has started and ended, or will never start.
void staging_scheduler::note_arrival(staging_launch &launch) noexcept {
    staging_buffers &buffers = *launch.work.buffers;
    --buffers.cancelled;
    const std::uint64_t seen_ns = std::exchange(launch.missed_ns, 0);
    buffers.start_delay.add(seen_ns - launch.announced_ns, seen_ns);
}

std::uint64_t staging_scheduler::longest_wait(const staging_buffers &buffers, std::uint64_t now) noexcept {
    if (buffers.cancelled.load(std::memory_order_relaxed) == 0) return 0;
    std::uint64_t longest = 0;
    const lock held = acquire();
    recycle();
    launches_.for_each({launch_state::leaving}, [&](staging_launch &launch) noexcept {
        if (launch.work.buffers != &buffers || !launch.missed_ns) return;
        launch.missed_ns = std::max(launch.missed_ns, now);
        longest = std::max(longest, launch.missed_ns - launch.announced_ns);
    });
    return longest;
}

void staging_scheduler::keep(staging_launch &launch, std::uint64_t use) noexcept {
    const lock held = acquire();
    const bool is_still_taken = launch.use == use && launch.state == launch_state::taken;
    if (is_still_taken) launches_.move(launch, launch_state::launched); // otherwise already announced, or over
}

void staging_scheduler::release_captured(staging_launch &first) noexcept {
    const lock held = acquire();
    for (staging_launch *next = &first; next;) {
        staging_launch &launch = *next;
        next = launch.next_of_copy;
        if (launch.shared.is_lost) continue;
        captured_ -= launch.state != launch_state::withdrawn;
        if (launch.state == launch_state::running) { // only for a short time
            pending_ -= launch.runs_expected - 1;
            launch.runs_expected = 1;
            launch.is_captured = false;
            continue;
        }
        // The expected runs will not happen: the kernel node was disabled.
        if (launch.state == launch_state::expected) pending_ -= launch.runs_expected;
        launches_.move(launch, launch_state::leaving);
    }
}

void staging_scheduler::expect_one(staging_launch &launch, std::uint64_t now) noexcept {
    if (launch.state == launch_state::withdrawn) {
        if (!launch.is_captured) launches_.move(launch, launch_state::unused); // a graph may announce it again
        return;
    }
    if (launch.shared.is_lost) return;
    if (launch.is_captured) pending_ += 1;
    ++launch.runs_expected;
    ++announced_;
    are_files_expected_ |= launch.work.may_read_ahead;
    launch.announced_ns = now;
    if (ahead() == 0) looked_ns_ = now; // no check was needed before
    if (launch.state == launch_state::taken || launch.state == launch_state::launched)
        launches_.move(launch, launch_state::expected);
}

// Calls servers to look for work, unless enough servers will see a new run soon. A server that is awake but not idle is
// resting, or is working and may get stuck before it checks for work again.
void staging_scheduler::call_servers(std::uint32_t wanted, const staging_buffers &buffers) noexcept {
    const std::uint32_t looking = servers_.looking();
    if (wanted > looking) servers_.call(wanted - looking, buffers.home);
}

// A call wakes few servers itself. If servers run late, it wakes all of them, because any of them may run first.
void staging_scheduler::unlock_for_call(lock &held, std::uint64_t now) noexcept {
    constexpr std::uint32_t few = 2;
    servers_.unlock(held, thread_delay_.at(now) == 0 ? few : UINT32_MAX);
}

void staging_scheduler::prepare_for_run(const staging_buffers &buffers, std::uint32_t blocks) noexcept {
    lock held = acquire();
    call_servers(blocks, buffers);
    unlock_for_call(held, clock_ns());
}

void staging_scheduler::expect(staging_launch &launch) noexcept {
    lock held = acquire();
    const std::uint64_t now = clock_ns();
    expect_one(launch, now);
    call_servers(1, *launch.work.buffers);
    unlock_for_call(held, now);
}

void staging_scheduler::expect_all(staging_launch &first) noexcept {
    lock held = acquire();
    const std::uint64_t now = clock_ns();
    for (staging_launch *launch = &first; launch; launch = launch->next_of_copy)
        expect_one(*launch, now);
    call_servers(1, *first.work.buffers);
    unlock_for_call(held, now);
}

void staging_scheduler::look_for_arrivals(std::uint64_t now) noexcept {
    // A busy server may have had no time to check, and a resting server checks after this time at the latest.
    constexpr std::uint64_t max_rest_ns = 300'000;
    const std::uint64_t unlooked = now - looked_ns_;
    const bool is_late = unlooked > max_rest_ns && servers_.count(server_state::busy) == 0;
    if (is_late && launches_.has(launch_state::expected)) unlooked_ns_ = std::max(unlooked_ns_, unlooked);
    looked_ns_ = now;
    launches_.for_each({launch_state::expected}, [&](staging_launch &launch) noexcept {
        if (!has_started(launch)) return;
        if (launch.work.is_first_on_stream && !launch.is_captured) measure_start(launch, now);
        begin_run(launch);
    });
}

// Excludes the delay that worker threads caused.
void staging_scheduler::measure_start(staging_launch &launch, std::uint64_t now) noexcept {
    const std::uint64_t waited = now - launch.announced_ns;
    launch.work.buffers->start_delay.add(waited > unlooked_ns_ ? waited - unlooked_ns_ : 0, now);
}

void staging_scheduler::begin_run(staging_launch &launch) noexcept {
    launches_.move(launch, launch_state::running);
    launch.run = {};
    if (!launch.work.by_copies) launch.count_chunks(); // otherwise counted before the first copy was enqueued
    launch.work.buffers->change_copies(1);
    call_servers(launch.work.blocks - 1, *launch.work.buffers);
}

// The launch leaves the state `running`.
void staging_scheduler::end_run(staging_launch &launch, launch_state next) noexcept {
    launches_.move(launch, next);
    launch.work.buffers->change_copies(-1);
    note_use();
}

void staging_scheduler::report_end(staging_launch &launch) noexcept {
    if (ferry_file *const file = std::exchange(launch.work.file, nullptr); file && drop(*file)) {
        file->next_unused = std::exchange(unused_files_, file);
        call_servers(1, *launch.work.buffers);
    }
    if (staged_progress *const progress = std::exchange(launch.work.progress, nullptr))
        progress->launches_left.fetch_sub(1, std::memory_order_release);
}

bool staging_scheduler::close_files(lock &held) noexcept {
    ferry_file *next = std::exchange(unused_files_, nullptr);
    if (!next) return false;
    servers_.unlock(held);
    while (next)
        close_unused(*std::exchange(next, next->next_unused));
    lock_patiently(held);
    return true;
}

void staging_scheduler::close_files() noexcept {
    lock held = acquire();
    while (close_files(held)) {
    }
    servers_.unlock(held);
}

bool staging_scheduler::end_if_done(staging_launch &launch) noexcept {
    if (launch.shared.busy != 0 || launch.shared.chunks_left.load(std::memory_order_acquire) != 0) return false;
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block)
        return_slots(launch, launch.record.channels[block]);
    if (!launch.work.caller_helps)
        thread_delay_.add(std::max(launch.shared.thread_delay_ns.load(), std::exchange(unlooked_ns_, 0)), clock_ns());
    // First, because a thread that waits for the stream may take the end of the kernel as the end of the copy.
    report_end(launch);
    publish_end(launch);
    --launch.runs_expected;
    pending_ -= 1;
    end_run(launch, launch.shared.is_cut_short  ? launch_state::dead
                    : !launch.is_captured       ? launch_state::leaving
                    : launch.runs_expected != 0 ? launch_state::expected
                                                : launch_state::launched);
    return true;
}

// ---- Queries

// Running launches with stuck workers do not count: a stuck worker continues its copy as soon as it can, without
// another worker's help.
bool staging_scheduler::has_work() const noexcept {
    if (launches_.has(launch_state::expected)) return true;
    if (!is_any_stuck_) return launches_.has(launch_state::running);
    for (const staging_launch *launch = launches_.first(launch_state::running); launch; launch = launch->next)
        if (launch->run.stuck == 0) return true;
    return false;
}

std::uint64_t staging_scheduler::idle_time(std::uint64_t now) const noexcept {
    const std::uint64_t ended = ended_ns_.load(std::memory_order_relaxed);
    return pending_ != 0 || now < ended ? 0 : now - ended;
}

void staging_scheduler::note_use() noexcept { ended_ns_.store(clock_ns(), std::memory_order_relaxed); }

staging_scheduler::outlook staging_scheduler::look_ahead() noexcept {
    const lock held = acquire();
    recycle();
    return {pending_, launches_.count(launch_state::leaving), captured_};
}

// A copy lasts as long as its last launch, so only that launch counts. For captured copies, all launches count, because
// they are announced one after another as they start.
staging_scheduler::load staging_scheduler::in_flight() noexcept {
    const lock held = acquire();
    load found;
    launches_.for_each({launch_state::launched, launch_state::expected, launch_state::running},
                       [&](const staging_launch &launch) noexcept {
                           const std::uint32_t runs = launch.is_captured ? launch.runs_expected : 1;
                           found.copies += launch.is_captured || !launch.next_of_copy ? runs : 0;
                           found.bytes += runs * launch.work.bytes();
                           if (launch.state == launch_state::running) found.bytes -= launch.shared.bytes_done.load();
                       });
    launches_.for_each({launch_state::running, launch_state::losing},
                       [&](const staging_launch &launch) noexcept { found.busy += launch.shared.busy; });
    return found;
}

bool staging_scheduler::may_write(const address_span &range) noexcept {
    if (copies_in_flight::are_untracked()) return true;
    if (!copies_in_flight::are_any()) return false;
    const lock held = acquire();
    if (copies_in_flight::of_all() != pending_ + captured_) return true;
    bool is_written = false;
    launches_.for_each(
        {launch_state::launched, launch_state::expected, launch_state::running, launch_state::losing},
        [&](const staging_launch &launch) noexcept { is_written |= launch.work.cut->writes_host(range); });
    return is_written;
}

} // namespace ferry
