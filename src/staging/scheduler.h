// The scheduler of staged copies, from which workers get their work: one for all devices of an instance. Each launch of
// a staging kernel is a staging_launch. A launch is running once a block of its kernel has started, and gets slots only
// then. Each block has a channel. A worker that takes the channel serves the block without a lock, as long as no other
// copy waits for its turn. Nothing here calls the driver, because the driver may be blocked on a copy that only a
// worker can finish.
//
// Workers are servers or helpers. A server works on all copies. A helper is a thread that waits for one copy and works
// on that copy. Of the workers without work, one watches: it checks for work continuously, while the others wait for
// their turn and then sleep. While a launch is expected, at least one server is free and checks, possibly at long
// intervals.
#pragma once

#include <condition_variable>
#include <mutex>

#include "base/function_ref.h"
#include "staging/launch_lists.h"
#include "staging/servers.h"

namespace ferry {

// Counts launches of one scheduler that have not ended, or that are captured and may run at any time. A second counter
// covers the launches of all schedulers, because the instances of a process share streams.
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
    static bool are_any() noexcept { return of_all() != 0 || are_untracked(); }
    static std::uint64_t of_all() noexcept { return of_all_.load(std::memory_order_relaxed); }
    // For copies by the driver in graphs that write pageable memory: their end is not known, so they count forever.
    static void note_untracked() noexcept { are_untracked_.store(true, std::memory_order_relaxed); }
    static bool are_untracked() noexcept { return are_untracked_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> own_ = 0;
    static std::atomic<std::uint64_t> of_all_;
    static std::atomic<bool> are_untracked_;
};

class staging_scheduler {
public:
    staging_scheduler() noexcept = default;
    staging_scheduler(const staging_scheduler &) = delete;
    staging_scheduler &operator=(const staging_scheduler &) = delete;

    // ---- Launches (scheduler.cpp)

    void add(staging_launch &made) noexcept; // adds a new launch to the free list
    // Takes `count` launches from the free list, for a stream or for a graph, and links them by `next_of_copy`. Returns
    // null if fewer are left.
    // `have_lists`: prefers launches that keep memory for a list of pieces. Otherwise prefers those without.
    bool has_unused() noexcept; // whether take() can succeed
    staging_launch *take(std::uint64_t count, bool is_captured, bool have_lists) noexcept;
    // Releases a launch whose kernel was not launched. `will_be_announced`: its host function was enqueued
    // nevertheless, and will announce the launch or has already done so.
    void withdraw(staging_launch &launch, bool will_be_announced) noexcept;
    // Keeps a launch whose kernel was launched after a host function. The host function announces the launch
    // immediately before the kernel runs.
    void keep(staging_launch &launch, std::uint64_t use) noexcept;
    // Releases the captured launches of a copy once no graph can run them any more.
    void release_captured(staging_launch &first) noexcept;
    // Ends a copy-engine launch once its first `arriving` chunks have arrived, because the driver rejects the rest.
    // Workers may still serve the next group of chunks. On return, none accesses the program's memory for chunks for
    // which the stream does not wait. The launch's slots and record are never used again, because the stream may still
    // execute one of its copies.
    void cut_short(staging_launch &launch, std::uint64_t arriving) noexcept;
    // Cancels a launch before it starts, although its kernel was launched: its blocks find no work.
    void cancel(staging_launch &launch) noexcept;
    // Wakes servers for a run that will be announced within microseconds.
    void prepare_for_run(const staging_buffers &buffers, std::uint32_t blocks) noexcept;
    // Announces a run: the kernel is about to run, or will be launched.
    void expect(staging_launch &launch) noexcept;
    void expect_all(staging_launch &first) noexcept; // all launches of a copy

    struct outlook {
        std::uint64_t pending; // runs that have not ended
        std::uint64_t leaving; // launches whose kernels have not ended yet
        std::uint64_t captured;
        bool operator==(const outlook &) const noexcept = default;
    };
    outlook look_ahead() noexcept;

    // Copies that are enqueued and have not ended. A captured copy counts only while it runs.
    struct load {
        std::uint32_t copies = 0;
        std::uint32_t busy = 0;  // threads that work on a copy, ferry's and the program's
        std::uint64_t bytes = 0; // bytes that have not arrived
    };
    load in_flight() noexcept;
    // Whether a copy that has not ended, or a captured copy, may write to these host addresses. All copies of other
    // instances count, because only their number is known here.
    bool may_write(const address_span &range) noexcept;

    // ---- Launches whose context has died (scheduler_losses.cpp)

    // Iterates over the contexts that have launches: returns the context after `one` in a fixed order, or null after
    // the last.
    const tracked_context *context_after(const tracked_context *one) noexcept;
    // Abandons the launches of a context that has died. Each launch is over once no worker serves it. If the context is
    // in fact alive, the kernels trap, except for broadcasts, whose kernels exit.
    void lose(const tracked_context &context, status_code status) noexcept;

    // ---- Slots (scheduler_slots.cpp)

    void add_slots(staging_buffers &buffers, staged_slot *first, std::uint32_t count) noexcept;
    // Keeps the first lots until release_lots(). They also stay while another retain_lots() is in effect or any launch
    // may run. Returns false, and keeps nothing, if `buffers` has no slots.
    [[nodiscard]] bool retain_lots(const staging_buffers &buffers) noexcept;
    void release_lots() noexcept;
    // Gives each of the first blocks of a taken copy-engine launch the slot that it keeps. The slots of a lot are in the
    // order of their addresses. Returns the number of blocks that got a slot. A quarter of the slots stays available for
    // other launches.
    std::uint32_t reserve_slots(staging_launch &launch, std::uint32_t blocks) noexcept;
    // Removes the slots of a lot from use. Returns false if a copy is using one of the slots, or the lot is kept.
    bool take_slots(staging_buffers &buffers, std::uint32_t lot) noexcept;

    // ---- Workers (scheduler_workers.cpp)

    // The action of a server that finds no work.
    enum class server {
        resident, // sleeps
        spare,    // sleeps, and leaves when it is no longer needed
        visitor,  // leaves
    };
    // Works on all copies until is_over() returns true, preferring copies of devices with this home (servers.h).
    void serve_until(server as, int home, function_ref<bool()> is_over) noexcept;
    // Works on one copy until is_over() returns true, or on all copies if `one` is null. A helper never sleeps for
    // long.
    void help_until(const staged_progress *one, function_ref<bool()> is_over) noexcept;
    // Closes the files whose last use was a copy that has ended. The workers do the same.
    void close_files() noexcept;
    // Wakes all servers and the watchdog, so that they call is_over() again.
    void wake_all() noexcept;
    // Returns the longest delay of kernels of cancelled launches that have not started yet.
    std::uint64_t longest_wait(const staging_buffers &buffers, std::uint64_t now) noexcept;
    // The most recent delay of the workers, caused by the system running other threads.
    const recent_delay &thread_delay() const noexcept { return thread_delay_; }
    // The time since the last copy ended, or since note_use(); 0 while there are copies. After a short time, the
    // servers sleep.
    std::uint64_t idle_time(std::uint64_t now) const noexcept;
    void note_use() noexcept;
    // Measures that delay again by waking a server, if a server sleeps. Returns immediately.
    void measure_thread_delay() noexcept;

    // ---- For the watchdog, a thread that never works on a copy (scheduler_watchdog.cpp, scheduler_slots.cpp)

    // Finds stuck workers: workers that have spent a long time on one chunk because pages of the program do not arrive.
    // Gives the idle slots of launches with stuck workers to other copies. Returns true if another server should be
    // started. That is the case if a server was requested. It is also the case if there is work, a worker is stuck, no
    // server is checking for work or sleeping, and fewer than `enough` servers are not stuck.
    bool inspect(std::uint64_t now, std::uint32_t enough) noexcept;
    // Whether a block of a launch with helpers has spent a long time on its chunk. Its context may have died, and the
    // other blocks, on the caller's stream, would wait forever. True at most twice per second.
    bool is_helper_late() noexcept;
    // Moves a filled slot of a launch with stuck workers into the parcel. Returns false if no launch waits for a slot,
    // or no filled slot is found.
    bool evacuate(staged_parcel &parcel) noexcept;
    // Returns staging buffers that are short of slots and that evacuate() may help; null if not found.
    const staging_buffers *starved_buffers() noexcept;
    // Waits until the next inspection is due, a server is requested, or `is_over` is set. After a time without expected
    // or running launches, no inspection is due. If there are spares, they leave first.
    void wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept;

private:
    using lock = staging_servers::lock;
    // The channel of a block, taken by the worker.
    struct task {
        staging_launch *launch = nullptr;
        std::uint32_t block = 0;
    };
    // A worker's search for work, starting with the first check that found nothing.
    struct search {
        std::uint64_t since_ns = 0;  // 0: no search
        std::uint64_t announced = 0; // number of announced runs at the start. A new run restarts the search
        bool watches = false;
        std::optional<std::uint64_t> slow_faults; // page faults of the thread at its last delay
    };
    using condition = function_ref<bool()>; // called without the mutex

    lock acquire() noexcept;
    void recycle() noexcept;
    static void note_arrival(staging_launch &launch) noexcept;
    void expect_one(staging_launch &launch, std::uint64_t now) noexcept;
    void call_servers(std::uint32_t wanted, const staging_buffers &buffers) noexcept;
    void unlock_for_call(lock &held, std::uint64_t now) noexcept;
    void look_for_arrivals(std::uint64_t now) noexcept;
    void measure_start(staging_launch &launch, std::uint64_t now) noexcept;
    void begin_run(staging_launch &launch) noexcept;
    void end_run(staging_launch &launch, launch_state next) noexcept;
    bool end_if_done(staging_launch &launch) noexcept;
    void report_end(staging_launch &launch) noexcept;
    bool close_files(lock &held) noexcept; // returns whether it unlocked the mutex
    bool has_work() const noexcept;
    // Number of launches that are expected or running.
    std::uint32_t ahead() const noexcept {
        return launches_.count(launch_state::expected) + launches_.count(launch_state::running);
    }

    void end_lost(staging_launch &launch) noexcept;
    void collect_lost_slots() noexcept;

    bool supply(staging_launch &launch, staging_channel &channel) noexcept;
    bool return_slots(staging_launch &launch, staging_channel &channel) noexcept;
    static void return_slot(staging_launch &launch, staging_channel &channel) noexcept;
    static bool hoards_slots(const staging_launch &launch) noexcept;
    static void reclaim_slots(staging_launch &launch) noexcept;

    bool may_go_on(staging_launch &launch, std::uint32_t block) noexcept;
    bool choose_channel(staging_launch &launch, std::uint32_t &block) noexcept;
    bool take_task(staging_launch &launch, task &found) noexcept;
    task find_task(std::uint64_t now, const staged_progress *one, int home) noexcept;
    void serve_channel(const task &found, int home, search &mine, condition is_over) const noexcept;
    void complete(const task &done) noexcept;
    bool read_ahead(int home, lock &held) noexcept;
    void work_on(const task &found, bool is_server, int home, search &mine, lock &held, condition is_over) noexcept;
    std::uint64_t time_without_work(search &mine, std::uint64_t now) const noexcept;
    std::uint64_t patience() const noexcept;
    void watch(search &mine, std::uint64_t now, lock &held, condition is_over) noexcept;
    void end_watch(search &mine) noexcept;
    void rest(search &mine, std::uint64_t now, lock &held) noexcept;

    std::mutex mutex_; // guards all members; atomics may be read without it
    launch_lists launches_;
    copies_in_flight pending_, captured_;
    std::uint64_t retains_ = 0;
    ferry_file *unused_files_ = nullptr; // to be closed without the mutex
    bool are_files_expected_ = false;    // since they were last looked for
    std::uint64_t announced_ = 0;        // total number of announced runs
    std::uint64_t looked_ns_ = 0;        // when a worker last checked for started blocks
    std::uint64_t unlooked_ns_ = 0;      // longest time without a check, with expected launches and no busy server
    std::uint64_t woken_ns_ = 0;         // when a server was woken to measure the delay; 0: none
    recent_delay thread_delay_;
    std::atomic<std::uint64_t> ended_ns_ = 0; // the last end of a launch

    staging_servers servers_;
    std::atomic<bool> is_watched_ = false; // one of the workers without work is watching

    std::condition_variable inspection_; // the watchdog waits on it
    std::uint32_t stuck_ = 0;            // servers found stuck by the last inspection that are still at their channels
    bool is_any_stuck_ = false;          // the last inspection found a stuck server or helper
    bool is_watchdog_asleep_ = false, is_server_wanted_ = false;
    bool are_spares_to_leave_ = false;
    // Start of the time without stuck workers or requested servers, and of the time without expected or running
    // launches.
    std::uint64_t calm_since_ns_ = 0, quiet_since_ns_ = 0;
};

} // namespace ferry
