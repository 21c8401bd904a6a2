// The scheduler of staged copies, where workers find their work. Each launch of a staging kernel is a staging_launch. A
// launch is running once a block of its kernel has come, and gets slots only then. Each block has a channel. A worker that takes the channel serves the block without a lock, as long as no other copy waits for its
// turn. Nothing here calls the driver: the driver may be blocked on a copy that only a worker can finish.
#pragma once

#include <condition_variable>
#include <mutex>

#include "staging/launch_lists.h"

namespace ferry {

// Counts launches of one scheduler that have not ended, or that are captured and may run at any time. A second count
// covers the launches of all schedulers, because the instances of one process share streams.
class copies_in_flight {
public:
    copies_in_flight() noexcept = default;
    ~copies_in_flight() { *this -= *this; }
    copies_in_flight(const copies_in_flight &) = delete;

    operator std::uint64_t() const noexcept { return own_.load(std::memory_order_relaxed); }
    void operator+=(std::uint64_t count) noexcept {
        own_.fetch_add(count, std::memory_order_relaxed);
        of_all_.fetch_add(count, std::memory_order_relaxed);
    }
    void operator-=(std::uint64_t count) noexcept {
        own_.fetch_sub(count, std::memory_order_relaxed);
        of_all_.fetch_sub(count, std::memory_order_relaxed);
    }
    static bool are_any() noexcept { return of_all_.load(std::memory_order_relaxed) != 0; }

private:
    std::atomic<std::uint64_t> own_ = 0;
    static std::atomic<std::uint64_t> of_all_;
};

class staging_scheduler {
public:
    staging_scheduler() noexcept = default;
    staging_scheduler(const staging_scheduler &) = delete;
    staging_scheduler &operator=(const staging_scheduler &) = delete;

    // Takes `count` launches from the free list, for a stream or for a graph, and links them by `next_of_copy`. Returns
    // null where fewer are left.
    staging_launch *take(std::uint64_t count, bool is_captured) noexcept;
    void add(staging_launch &made) noexcept; // a new one, to the free list
    // Releases a launch whose kernel was not launched. `will_be_announced`: its host function was enqueued all the same,
    // and will announce the launch or has already done so.
    void withdraw(staging_launch &launch, bool will_be_announced) noexcept;
    // The kernel was launched, behind a host function that announces the launch when it is about to run.
    void keep(staging_launch &launch, std::uint64_t use) noexcept;
    // Releases the captured launches of a copy, which nothing will run any more.
    void release_captured(staging_launch &first) noexcept;
    // Announces a run: the kernel is about to run, or will be launched.
    void expect(staging_launch &launch) noexcept;
    void expect_all(staging_launch &first) noexcept; // all launches of a copy
    // Iterates over the contexts that have launches: returns the one after `one` in a fixed order, null past the last.
    const tracked_context *context_after(const tracked_context *one) noexcept;
    // Gives up the launches of a context that has died. Each launch is over once no worker is at it. If the context is
    // alive all the same, the kernels trap.
    void lose(const tracked_context &context, std::int32_t status) noexcept;

    void add_slots(staging_buffers &buffers, staged_slot *first, std::uint32_t count) noexcept;
    // Keeps the first lots until let_go(). They stay, too, while there is another hold or any launch may run. Returns
    // false, and keeps nothing, where `buffers` has no slots.
    [[nodiscard]] bool hold(const staging_buffers &buffers) noexcept;
    void let_go() noexcept;
    // Takes the slots of a lot out of use. Returns false where a copy has one of these slots, or the lot is kept.
    bool take_slots(staging_buffers &buffers, bool first_lot) noexcept;

    // What a worker does when it finds no work. Residents, spares and visitors are the servers. While any launch is
    // expected, one server always looks for work.
    enum class worker {
        resident, // sleeps
        spare,    // sleeps, and leaves when it is not needed any more
        visitor,  // leaves
        helper,   // looks again, until `is_over`
    };
    // Works on copies until `is_over` returns true: on all copies, or on one if `one` is not null.
    void serve(worker as, const staged_progress *one, bool (*is_over)(void *user), void *user) noexcept;
    template <class IsOver> void serve_until(worker as, const staged_progress *one, IsOver is_over) noexcept {
        serve(
            as, one, [](void *user) { return (*static_cast<IsOver *>(user))(); }, &is_over);
    }
    // Wakes all sleeping workers and the watchdog, so that they check `is_over` again.
    void wake_all() noexcept;

    // ---- For the watchdog, a thread that never works on a copy

    // Finds the stuck workers, which have been at one chunk for long because pages of the program do not come. Other
    // copies get the idle slots of the launches with stuck workers. Returns true where one more server should run: if a
    // server was asked for, or if there is work, a worker is stuck, no server looks or sleeps, and fewer than `enough`
    // servers are not stuck.
    bool inspect(std::uint64_t now, std::uint32_t enough) noexcept;
    // Moves a filled slot of a launch with stuck workers into the parcel. Returns false where no launch waits for a
    // slot, or no filled slot is found.
    bool evacuate(staged_parcel &parcel) noexcept;
    // Returns staging buffers that are short of slots and that evacuate() may help; null where there are none.
    const staging_buffers *starved_buffers() noexcept;
    // Waits until the next inspection is due, a server is asked for, or `is_over`. Once no launch has been expected or
    // running for a while, no inspection is due, unless there are spares, which leave first.
    void wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept;

    struct outlook {
        std::uint64_t pending; // runs that have not ended
        std::uint64_t leaving; // launches whose kernels have not ended yet
        std::uint64_t captured;
        bool operator==(const outlook &) const noexcept = default;
    };
    outlook look_ahead() noexcept;

    // The copies that are enqueued and have not ended. A captured copy counts only while it runs.
    struct load {
        std::uint32_t copies = 0;
        std::uint32_t busy = 0;  // threads that work on a copy, ferry's and the program's
        std::uint64_t bytes = 0; // that have not arrived
    };
    load in_flight() noexcept;

private:
    using lock = std::unique_lock<std::mutex>;
    struct task {
        staging_launch *launch = nullptr;
        std::uint32_t block = 0;
    };
    bool has_work() const noexcept;
    lock acquire() noexcept;
    static void lock_again(lock &held) noexcept;
    void expect_one(staging_launch &launch) noexcept;
    void wake_watcher() noexcept;
    void wake(std::uint64_t count) noexcept;
    void unlock(lock &held) noexcept;
    void sleep(lock &held) noexcept;
    bool wait_for_lead(bool (*is_over)(void *user), void *user, std::uint64_t until) noexcept;
    void begin_run(staging_launch &launch) noexcept;
    void end_run(staging_launch &launch, launch_state next) noexcept;
    void look_for_arrivals(std::uint64_t now) noexcept;
    bool supply(staging_launch &launch, staging_channel &channel) noexcept;
    bool return_slots(staging_launch &launch, staging_channel &channel) noexcept;
    static void return_slot(staging_launch &launch, staging_channel &channel) noexcept;
    static bool hoards_slots(const staging_launch &launch) noexcept;
    bool may_go_on(staging_launch &launch, std::uint32_t block) noexcept;
    bool choose_channel(staging_launch &launch, std::uint32_t &block) noexcept;
    bool end_if_done(staging_launch &launch) noexcept;
    static void report_end(staging_launch &launch) noexcept;
    task find_task(std::uint64_t now, const staged_progress *one, bool is_server) noexcept;
    bool take_task(staging_launch &launch, bool is_server, task &found) noexcept;
    // Launches expected or running.
    std::uint32_t ahead() const noexcept {
        return launches_.count(launch_state::expected) + launches_.count(launch_state::running);
    }
    std::uint32_t servers() const noexcept { return awake_ + asleep_ + called_; }
    void reclaim_slots(staging_launch &launch) noexcept;
    void serve_channel(staging_launch &launch, std::uint32_t block, bool (*is_over)(void *user),
                       void *user) const noexcept;
    void complete(const task &done) noexcept;
    void end_lost(staging_launch &launch) noexcept;
    void collect_lost_slots() noexcept;
    void recycle() noexcept;

    std::mutex mutex_;
    launch_lists launches_;
    // Servers. `called_` ones are to wake. For the `uncalled_` ones among them, unlock() has yet to call the system.
    std::uint32_t awake_ = 0, asleep_ = 0, called_ = 0, uncalled_ = 0;
    std::atomic<std::uint32_t> calls_ = 0;     // ever; sleepers wait for a change
    std::uint32_t idle_ = 0, at_channels_ = 0; // awake servers that found no work; awake servers at channels
    std::atomic<bool> is_led_ = false;         // one of the workers without work looks for some
    copies_in_flight pending_, captured_;
    std::uint64_t holds_ = 0;
    std::uint64_t announced_ = 0; // runs, ever
    std::uint64_t looked_ns_ = 0;

    std::condition_variable inspection_; // the watchdog waits on it
    std::uint32_t stuck_ = 0;            // servers stuck when last inspected, and still at their channels
    bool is_any_stuck_ = false;          // a server or a helper was, when last inspected
    bool is_watchdog_asleep_ = false, is_server_wanted_ = false;
    bool are_spares_to_leave_ = false;
    // Since when no worker is stuck and no server is wanted, and since when no launch is expected or running.
    std::uint64_t calm_since_ns_ = 0, quiet_since_ns_ = 0;
};

} // namespace ferry
