// The watchdog: finds stuck workers and decides whether another server is needed.
#include <chrono>
#include <utility>

#include "staging/scheduler.h"
#include "system/threads.h"

namespace ferry {

namespace {

// A chunk takes about 0.1 ms. A thread that the system has suspended takes several milliseconds. If such a thread is
// mistaken for stuck, it loses idle slots, which it gets back later.
constexpr std::uint64_t stuck_after_ns = 4'000'000;
constexpr std::uint64_t between_inspections_ns = 2'000'000;
// Time that the watchdog waits before it sleeps and the spares leave. Starting them again costs about 50 us.
constexpr std::uint64_t calm_patience_ns = 100'000'000;

// Returns whether the channel's worker has been accessing the program's memory since long before `now`.
bool is_stuck(staging_channel &channel, std::uint64_t now) noexcept {
    const std::uint32_t visit = channel.visit.load(std::memory_order_relaxed);
    if (!channel.is_taken || !(visit & staging_channel::away) || visit != channel.last_visit) {
        channel.last_visit = visit;
        channel.last_visit_ns = now;
    }
    return now - channel.last_visit_ns >= stuck_after_ns;
}

} // namespace

bool staging_scheduler::inspect(std::uint64_t now, std::uint32_t enough) noexcept {
    lock held = acquire();
    stuck_ = 0;
    is_any_stuck_ = false;
    launches_.for_each({launch_state::running, launch_state::losing}, [&](staging_launch &launch) noexcept {
        launch.run.stuck = 0;
        for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
            staging_channel &channel = launch.record.channels[block];
            channel.is_stuck = is_stuck(channel, now);
            launch.run.stuck += channel.is_stuck;
            stuck_ += channel.is_stuck && channel.is_by_server;
        }
        is_any_stuck_ |= launch.run.stuck != 0;
    });
    if (is_any_stuck_)
        launches_.for_each({launch_state::running}, [&](staging_launch &launch) noexcept {
            if (launch.run.stuck != 0) reclaim_slots(launch);
        });
    if (is_any_stuck_ || is_server_wanted_) calm_since_ns_ = now;
    if (ahead() != 0) quiet_since_ns_ = now;
    // A stuck server may have been the server that checked for work.
    const bool is_unattended =
        is_any_stuck_ && servers_.free() == 0 && servers_.count(server_state::called) == 0 && has_work();
    if (is_unattended) servers_.call(1, any_node);
    const bool is_short =
        is_unattended && servers_.count(server_state::called) == 0 && servers_.all() - stuck_ < enough;
    const bool is_wanted = std::exchange(is_server_wanted_, false) || is_short;
    are_spares_to_leave_ = !is_wanted && now - calm_since_ns_ >= calm_patience_ns;
    servers_.unlock(held);
    return is_wanted;
}

bool staging_scheduler::is_helper_late() noexcept {
    constexpr std::uint64_t late_ns = 500'000'000;
    lock held = acquire();
    const std::uint64_t now = clock_ns();
    bool is_late = false;
    launches_.for_each({launch_state::running}, [&](staging_launch &launch) noexcept {
        if (!launch.work.helpers[0] && !launch.work.is_broadcast) return;
        launch_run &run = launch.run;
        const std::uint64_t done = launch.shared.bytes_done.load(std::memory_order_relaxed);
        const bool is_due = now - run.bytes_since_ns >= late_ns;
        is_late |= is_due && done == run.bytes_done && run.bytes_since_ns != 0 && is_at_work(launch);
        if (is_due || done != run.bytes_done) run.bytes_since_ns = now;
        run.bytes_done = done;
    });
    servers_.unlock(held);
    return is_late;
}

void staging_scheduler::wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept {
    lock held = acquire();
    if (is_over || is_server_wanted_) return;
    const std::uint64_t now = clock_ns();
    const bool is_quiet = ahead() == 0 && now - quiet_since_ns_ >= calm_patience_ns;
    if (is_quiet && has_spares && are_spares_to_leave_) {
        servers_.call_all();
        servers_.unlock(held);
        lock_patiently(held);
    }
    if (!is_quiet || has_spares) {
        inspection_.wait_for(held, std::chrono::nanoseconds(between_inspections_ns));
    } else {
        is_watchdog_asleep_ = true;
        inspection_.wait(held, [&] { return !is_watchdog_asleep_ || is_server_wanted_ || is_over; });
        is_watchdog_asleep_ = false;
        quiet_since_ns_ = clock_ns();
    }
    servers_.unlock(held);
}

} // namespace ferry
