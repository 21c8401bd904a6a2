// Where the threads of staged copies find their work. Each launch of a ring kernel is a job; a job is under way once a
// block of its kernel has come, and only then has slots. Each block has a lane, and a thread that takes it serves the
// block without a lock, as long as no other copy waits for its turn. Nothing here calls the driver, so nothing waits for
// it: a thread that runs copies may be the only one that can end what the driver waits for.
#pragma once

#include <condition_variable>
#include <mutex>

#include "staging/channel.h"

namespace ferry {

// Launches of one board that have not ended, or are captured and may run at any time. Those of all boards are counted too:
// instances of one process share streams.
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

    // Jobs for as many launches, or for those of a graph; null where fewer are left.
    staging_launch *take(std::uint64_t count, bool is_captured) noexcept;
    void add(staging_launch &made) noexcept; // a new one
    // It is not launched. `will_be_expected`: a function that expects it is on its way all the same, or has been.
    void release(staging_launch &launch, bool will_be_expected) noexcept;
    // It was launched, and a function expects it when it is about to run.
    void keep(staging_launch &launch, std::uint64_t use) noexcept;
    // Nothing will run what was captured any more: the launches of a copy.
    void release(staging_launch &first) noexcept;
    // It is about to run, or will be launched.
    void expect(staging_launch &launch) noexcept;
    void expect_all(staging_launch &first) noexcept; // of a copy
    // Of the contexts that have any launch, the next one in some order; null past the last.
    const tracked_context *context_after(const tracked_context *one) noexcept;
    // Gives the launches of a context up, which has died: each is over once no thread is at it. Should the context live
    // all the same, the kernels trap.
    void lose(const tracked_context &context, std::int32_t status) noexcept;

    void add_slots(staging_buffers &ring, staged_slot *first, std::uint32_t count) noexcept;
    // Keeps the first lots, until it is let go, while any is held or any job may run; false where the ring has none.
    [[nodiscard]] bool hold(const staging_buffers &ring) noexcept;
    void let_go() noexcept;
    // Takes the slots of a lot back; false where a copy is at one of them, or it is kept.
    bool take_slots(staging_buffers &ring, bool first_lot) noexcept;

    // What a thread does that finds nothing to do. While anything is expected, one resident, spare or visitor always
    // looks. These are the servers.
    enum class worker {
        resident, // sleeps
        spare,    // sleeps, and leaves when it is not needed any more
        visitor,  // leaves
        helper,   // looks again, until it is over
    };
    // Runs copies until `is_over`: any, or the launches of one.
    void serve(worker as, const staged_progress *one, bool (*is_over)(void *user), void *user) noexcept;
    template <class IsOver> void serve_until(worker as, const staged_progress *one, IsOver is_over) noexcept {
        serve(
            as, one, [](void *user) { return (*static_cast<IsOver *>(user))(); }, &is_over);
    }
    // All who sleep, and the watchdog, shall ask again whether it is over.
    void wake_all() noexcept;

    // ---- For the watchdog, a thread that is at no copy itself

    // Finds the threads that are stuck: at one chunk for long, as pages of the program's do not come. Other copies get
    // the slots of their lanes. True where one more server should run; else there are `enough` that are not stuck.
    bool inspect(std::uint64_t now, std::uint32_t enough) noexcept;
    // Moves a filled slot of a copy with stuck threads into the parcel; false where nobody waits for a slot.
    bool evacuate(staged_parcel &parcel) noexcept;
    // Of the ring where somebody waits for a slot; null where nobody does.
    const staging_buffers *starved_ring() noexcept;
    // Until the next inspection is due, or it is over: while nothing is under way, that is for ever, but for a watchdog
    // with spares to see off.
    void wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept;
    // One more server is wanted, whatever is found.
    void ask_for_server() noexcept;

    struct outlook {
        std::uint64_t pending; // runs that have not ended
        std::uint64_t leaving; // jobs whose kernels have not ended yet
        std::uint64_t captured;
        bool operator==(const outlook &) const noexcept = default;
    };
    outlook look_ahead() noexcept;

    // What is enqueued and has not ended; what is captured, while it runs.
    struct load {
        std::uint32_t copies = 0;
        std::uint32_t busy = 0;  // threads that are at one, whosever they are
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
    void rest(staging_launch &launch) noexcept;
    void expect_one(staging_launch &launch) noexcept;
    void wake_watcher() noexcept;
    void wake(std::uint64_t count) noexcept;
    void unlock(lock &held) noexcept;
    void sleep(lock &held) noexcept;
    bool wait_for_lead(bool (*is_over)(void *user), void *user, std::uint64_t until) noexcept;
    void begin_run(staging_launch &launch) noexcept;
    void end_run(staging_launch &launch) noexcept;
    void look_for_arrivals(std::uint64_t now) noexcept;
    bool supply(staging_launch &launch, staging_channel &lane) noexcept;
    bool give_back_slots(staging_launch &launch, staging_channel &lane) noexcept;
    bool may_go_on(staging_launch &launch, std::uint32_t block) noexcept;
    bool choose_lane(staging_launch &launch, std::uint32_t &block) noexcept;
    bool end_if_done(staging_launch &launch) noexcept;
    task find_task(std::uint64_t now, const staged_progress *one, bool is_server) noexcept;
    bool take_task(staging_launch &launch, bool is_server, task &found) noexcept;
    std::uint32_t servers() const noexcept { return awake_ + asleep_ + called_; }
    void reclaim_slots(staging_launch &launch) noexcept;
    void attend(staging_launch &launch, std::uint32_t block, bool (*is_over)(void *user), void *user) const noexcept;
    void complete(const task &done) noexcept;
    void end_lost(staging_launch &launch) noexcept;
    void collect_lost_slots() noexcept;
    void recycle() noexcept;

    std::mutex mutex_;
    chain<staging_launch> unused_, launched_, expected_, under_way_, leaving_;
    chain<staging_launch> losing_; // lost, with threads that have not noticed
    chain<staging_launch> lost_;   // whose blocks may still use their slots
    std::uint64_t unused_count_ = 0;
    std::atomic<std::uint32_t> ahead_ = 0; // jobs expected and under way
    // Residents and visitors: those that are to wake are called, some when the mutex is unlocked.
    std::uint32_t awake_ = 0, asleep_ = 0, called_ = 0, uncalled_ = 0;
    std::atomic<std::uint32_t> calls_ = 0;  // ever
    std::uint32_t idle_ = 0, at_lanes_ = 0; // of those that are awake; idle ones find nothing to do
    std::atomic<bool> is_led_ = false;      // one of those looks
    copies_in_flight pending_, captured_;
    std::uint64_t leaving_count_ = 0;
    std::uint64_t holds_ = 0;
    std::uint64_t announced_ = 0; // runs expected, ever
    std::uint64_t looked_ns_ = 0;

    std::condition_variable inspection_; // of the watchdog
    std::uint32_t stuck_ = 0;            // servers, when last inspected
    bool is_any_stuck_ = false;          // or a helper
    bool is_watchdog_asleep_ = false, is_server_wanted_ = false;
    bool are_spares_to_leave_ = false;
    std::uint64_t calm_since_ns_ = 0, quiet_since_ns_ = 0; // nobody is stuck; and nothing is under way
};

} // namespace ferry
