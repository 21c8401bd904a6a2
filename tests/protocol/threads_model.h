// Models which threads serve staged copies, and what all threads wait for: the scheduler's rules, threads that sleep
// and are woken, pages that never arrive, a program that helps, frees or closes, the driver's lock, and dying contexts.
// The scheduler makes these decisions under its mutex. So their order is the order of the steps, and memory needs no
// model.
#pragma once

#include <string>

#include "search.h"

namespace ferry::protocol {

constexpr unsigned max_copies = 3, max_residents = 4;

struct threads_setup {
    struct copy {
        std::uint8_t chunks = 0; // each moved by its own block
        bool is_slow = false;    // its pages never arrive
        bool is_captured = false;
        std::uint8_t launches = 1;
        std::uint8_t context = 0;
    };
    enum class submitting : std::uint8_t {
        no,
        only_worker_waits, // the program's one worker waits for the first copy, so submitted work runs only after that
        refused,           // the program's job system refuses all work
        runs_at_once,      // it runs all work inside `submit`, which the host function before the kernel calls
    };

    const char *name;
    std::uint8_t residents;
    copy copies[max_copies];
    std::uint8_t spares = 0;     // threads that may be started when all threads are in copies: one per slow copy
    bool program_helps = false;  // while it waits for its last copy
    bool frees = false;          // another thread frees device memory meanwhile
    bool kills_context = false;  // context 1 dies at any time
    bool hears_of_death = false; // a call into context 0 returns the status of another context's death
    bool closes = true;          // the program closes at the end
    submitting submit = submitting::no;
};

enum class threads_defect : std::uint8_t {
    none,
    announced_at_capture,       // once, instead of by each launch
    any_thread_enters_any_copy, // including a copy with slow pages, up to the last thread
    no_spare_thread,            // when all threads are in copies
    helper_serves_others,       // before its own copy is done
    helper_asks_under_lock,     // whether its context is alive, under the driver's lock
    close_asks_one_context,     // always the first
    death_inferred,             // from the status of any context; the kernel leaves
    death_inferred_and_trapped, // from the status of any context; the kernel traps
    refusal_ignored,            // by `submit`
    work_in_submit_waits,       // for the kernel after the host function that it runs in
    watcher_not_woken,          // when a run is announced
    wait_value_read_unlocked,   // by a thread that goes to sleep: a wake in between is lost
    last_looker_sleeps,         // while there is work
    last_looker_wakes_nobody,   // when it takes the last chunk of one copy while another is expected
};

class threads_model {
public:
    threads_model(const threads_setup &setup, threads_defect defect);

    enum class kernel : std::uint8_t { absent, queued, announced, running, over, failed };
    enum class run : std::uint8_t { none, expected, running };
    struct staged {
        kernel at;
        run now;
        std::uint8_t launches_left, runs_expected, next_chunk, chunks_left, inside; // threads
        bool may_leave, is_lost;
    };
    enum class resident : std::uint8_t { absent, looks, idles, rests, in_copy, falls_asleep, asleep, woken, gone };
    struct thread {
        resident at;
        std::uint8_t copy, wakes_seen;
    };
    enum class helper : std::uint8_t { absent, looks, in_copy, asks, done };
    enum class program : std::uint8_t { launches, waits, closes, joins, over };
    enum class free : std::uint8_t { absent, wants_lock, holds_lock, over };
    struct State {
        staged copies[max_copies];
        thread threads[max_residents]; // residents, then spares
        std::uint8_t awake, idle, in_copies, asleep, called,
            wakes; // servers. `awake` includes those that are idle or in copies
        std::uint8_t to_notify;
        helper helps;
        std::uint8_t helps_copy; // the copy that the helper is in
        program does;
        std::uint8_t launched; // copies
        free frees;
        bool is_dead, is_heard, is_locked, is_closing; // is_locked: the driver's lock is held
        std::uint8_t error;
    };

    State first() const;
    unsigned actors() const { return max_actors; }
    std::string actor(unsigned which) const;
    const char *step(State &state, unsigned actor, choices &way) const;
    const char *broken(const State &state) const;
    bool is_end(const State &state) const;
    fingerprint identify(const State &state) const;

private:
    enum : unsigned {
        the_program,
        the_helper,
        the_freeing,
        the_driver,
        the_notifying, // a thread that woke others, after it has unlocked the mutex
        first_stream,
        first_thread = first_stream + max_copies,
        max_actors = first_thread + max_residents,
    };
    enum error : std::uint8_t { no_error, bytes_missing, live_context_lost };

    bool has(threads_defect which) const { return defect_ == which; }
    bool is_enqueued_expected(unsigned copy) const;
    bool is_dead(const State &state, unsigned copy) const { return state.is_dead && setup_.copies[copy].context == 1; }
    bool has_work(const State &state) const;
    bool has_pending(const State &state) const;

    const char *step_program(State &state, choices &way) const;
    const char *close(State &state, choices &way) const;
    const char *step_helper(State &state, choices &way) const;
    const char *step_free(State &state) const;
    const char *step_driver(State &state) const;
    const char *notify(State &state, choices &way) const;
    const char *step_stream(State &state, unsigned copy) const;
    const char *step_thread(State &state, unsigned which, choices &way) const;
    const char *look(State &state, thread &me, choices &way) const;

    void expect(State &state, unsigned copy) const;
    void wake(State &state) const;
    bool begin_or_find(State &state, unsigned copy) const;
    bool may_enter(const State &state, unsigned copy) const;
    void enter(State &state, unsigned copy) const;
    void leave(State &state, unsigned copy) const;
    void end_run(State &state, unsigned copy) const;
    void lose(State &state, unsigned copy) const;

    threads_setup setup_;
    threads_defect defect_;
    unsigned copies_ = 0;
};

} // namespace ferry::protocol
