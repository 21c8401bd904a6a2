// Where the threads of staged copies find their work. Each launch of a ring kernel is a job; a job is under way once a
// block of its kernel has come, and only then has slots. Jobs take turns, chunk by chunk. Nothing here calls the driver,
// so nothing waits for it: a thread that runs copies may be the only one that can end what the driver waits for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "route/staged_ring.h"

namespace ferry {

// How far a copy is, for whoever asked for it. It stays until no launch is left, which is the last that is written, and
// comes before the stream passes the copy unless its context dies.
struct staged_watch {
    std::atomic<std::uint64_t> landed = 0; // bytes
    std::atomic<std::int32_t> status = FERRY_SUCCESS;
    std::atomic<std::uint32_t> launches_left = 0;

    bool is_done() const noexcept { return launches_left.load(std::memory_order_acquire) == 0; }
};

struct staged_job {
    // For good: its record, and what both sides have said there.
    kernels::ring_record *record = nullptr;
    std::uint64_t device_record = 0;
    struct mailbox {
        std::uint32_t told = 0, done = 0; // messages, ever
        std::uint32_t ended = 0;          // runs, in 31 bits
        bool is_attended = false;         // by a block, for the run that is next to end
        staged_slot *slots[kernels::messages_at_once] = {};
    };
    mailbox mailboxes[kernels::most_ring_blocks];

    // Of the launch.
    std::optional<staging> cut;
    staged_ring *ring = nullptr;
    staged_watch *watch = nullptr;
    staged_job *next_launch = nullptr; // of the same copy
    CUcontext context = nullptr;
    std::uint64_t first_chunk = 0, end_chunk = 0;
    std::uint32_t blocks = 0;
    bool is_captured = false; // may run again and again, and several times at once

    // Of the run. `ready`: filled slots, on their way to the device or to the program's memory.
    enum class state : std::uint8_t { unused, taken, launched, expected, under_way, leaving, given_back };
    state at = state::unused;
    bool is_lost = false;
    std::uint64_t use = 0; // how often it has been taken
    void *owner = nullptr; // for the host function that expects it
    std::uint32_t runs_expected = 0;
    std::uint64_t next_chunk = 0, chunks_left = 0;
    std::uint64_t landed = 0; // bytes
    chain<staged_slot> ready{};
    std::uint32_t held = 0, busy = 0; // slots, and those that a thread is at
    staged_job *previous = nullptr, *next = nullptr;
};

class staged_board {
public:
    staged_board() noexcept = default;
    staged_board(const staged_board &) = delete;
    staged_board &operator=(const staged_board &) = delete;

    // As in staged_options.
    void set_up(std::uint64_t patience_ns, bool wakes_all) noexcept {
        patience_ns_ = patience_ns;
        wakes_all_ = wakes_all;
    }

    // Jobs for as many launches, or for those of a graph; null where fewer are left.
    staged_job *take(std::uint64_t count, bool is_captured) noexcept;
    void add(staged_job &made) noexcept; // a new one
    // It is not launched. `will_be_expected`: a function that expects it is on its way all the same, or has been.
    void give_back(staged_job &job, bool will_be_expected) noexcept;
    // It was launched, and a function expects it when it is about to run.
    void keep(staged_job &job, std::uint64_t use) noexcept;
    // It is about to run, or will be launched.
    void expect(staged_job &job) noexcept;
    void expect_all(staged_job &first) noexcept; // of a copy
    // Of the contexts that have any launch, the next one in some order; null past the last.
    CUcontext context_after(CUcontext one) noexcept;
    // Those of a context that has died. Waits for threads that are at them; what they hold is free then.
    void lose(CUcontext context, std::int32_t status) noexcept;

    void add_slots(staged_ring &ring, staged_slot *first, std::uint32_t count) noexcept;
    // Keeps the first lots, until it is let go, while any is held or any job may run; false where the ring has none.
    [[nodiscard]] bool hold(const staged_ring &ring) noexcept;
    void let_go() noexcept;
    // Takes the slots of a lot back; false where a copy is at one of them, or it is kept.
    bool take_slots(staged_ring &ring, bool first_lot) noexcept;

    // What a thread does that finds nothing to do. While anything is expected, one resident or visitor always looks.
    enum class worker {
        resident, // sleeps
        visitor,  // leaves
        helper,   // looks again, until it is over
    };
    // Runs copies until `is_over`, which is asked with the mutex locked.
    void serve(worker as, bool (*is_over)(void *user), void *user) noexcept;
    template <class IsOver> void serve_until(worker as, IsOver is_over) noexcept {
        serve(
            as, [](void *user) { return (*static_cast<IsOver *>(user))(); }, &is_over);
    }
    // All who sleep shall ask again whether it is over.
    void wake_all() noexcept;

    struct outlook {
        std::uint64_t pending; // runs that have not ended
        std::uint64_t leaving; // jobs whose kernels have not ended yet
        std::uint64_t captured;
        CUcontext of_one = nullptr; // of which there are
        bool operator==(const outlook &) const noexcept = default;
    };
    outlook look_ahead() noexcept;
    bool has_ended() const noexcept { return pending_ == 0; } // for `is_over`

    // What is enqueued and has not ended; what is captured, while it runs.
    struct load {
        std::uint32_t copies = 0;
        std::uint32_t busy = 0;  // threads that are at one, whosever they are
        std::uint64_t bytes = 0; // that have not arrived
    };
    load on_the_way() noexcept;

private:
    using lock = std::unique_lock<std::mutex>;
    struct task {
        staged_job *job = nullptr;
        staged_slot *slot = nullptr;
    };
    bool has_work() const noexcept { return !expected_.is_empty() || !under_way_.is_empty(); }
    lock acquire() noexcept;
    static void lock_again(lock &held) noexcept;
    void rest(staged_job &job) noexcept;
    void expect_one(staged_job &job) noexcept;
    void wake_watcher(lock &held) noexcept;
    void begin_run(staged_job &job) noexcept;
    void look_for_arrivals(std::uint64_t now) noexcept;
    void collect(staged_job &job) noexcept;
    void hand_over(staged_job &job) noexcept;
    staged_slot *take_slot(staged_job &job) noexcept;
    void release(staged_job &job, staged_slot &slot) noexcept;
    void land(staged_job &job, staged_slot &slot) noexcept;
    bool end_if_done(staged_job &job) noexcept;
    task find_task(std::uint64_t now) noexcept;
    void complete(const task &done) noexcept;
    void lose(staged_job &job, std::int32_t status, lock &held) noexcept;
    void recycle() noexcept;

    std::uint64_t patience_ns_ = 0;
    bool wakes_all_ = false;
    std::mutex mutex_;
    std::condition_variable wake_, calm_;
    chain<staged_job> unused_, launched_, expected_, under_way_, leaving_;
    std::uint64_t unused_count_ = 0;
    std::uint32_t awake_ = 0, asleep_ = 0; // residents and visitors
    std::uint32_t looking_ = 0;            // those that found nothing just now
    std::uint64_t pending_ = 0, leaving_count_ = 0, captured_ = 0;
    std::uint64_t holds_ = 0;
    std::uint64_t announced_ = 0; // runs expected, ever
    std::uint64_t looked_ns_ = 0;
};

} // namespace ferry
