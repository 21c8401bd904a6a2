// The surroundings of the scheduler's threads: a caller that waits, the driver and its lock, streams, dying contexts,
// and the program until its close has returned.
#include <algorithm>

#include "threads_model.h"

namespace ferry::protocol {

using submitting = threads_setup::submitting;

// ---- A caller that waits for its copy, which is the last copy

const char *threads_model::step_helper(State &state, choices &way) const {
    const unsigned own = copies_ - 1;
    const bool is_done = state.launched == copies_ && state.copies[own].now == run::none &&
                         (state.copies[own].may_leave || state.copies[own].at == kernel::over);
    switch (state.helps) {
    case helper::looks:
        if (is_done) {
            state.helps = helper::done;
            return "returns, as its copy is done";
        }
        for (unsigned copy = has(threads_defect::helper_serves_others) ? 0 : own; copy < copies_; ++copy) {
            if (!begin_or_find(state, copy) || (copy != own && way.pick(2) == 1)) continue;
            state.helps = helper::in_copy;
            state.helps_copy = static_cast<std::uint8_t>(copy);
            enter(state, copy);
            return "takes a chunk";
        }
        if (!has(threads_defect::helper_asks_under_lock)) return nullptr; // without the defect, the query needs no lock
        state.helps = helper::asks;
        return "queries whether its context is alive";
    case helper::in_copy:
        if (setup_.copies[state.helps_copy].is_slow) return nullptr;
        leave(state, state.helps_copy);
        state.helps = helper::looks;
        return "has moved its chunk";
    case helper::asks:
        if (state.is_locked) return nullptr;
        state.helps = helper::looks;
        return "has its answer";
    default:
        return nullptr;
    }
}

// ---- The driver

// A free holds the driver's lock until no kernel runs.
const char *threads_model::step_free(State &state) const {
    const auto runs = [](const staged &one) {
        return one.at == kernel::queued || one.at == kernel::announced || one.at == kernel::running;
    };
    switch (state.frees) {
    case free::wants_lock:
        if (state.is_locked || state.launched != copies_) return nullptr;
        state.is_locked = true;
        state.frees = free::holds_lock;
        return "takes the driver's lock and waits for the kernels";
    case free::holds_lock:
        if (std::any_of(state.copies, state.copies + copies_, runs)) return nullptr;
        state.is_locked = false;
        state.frees = free::over;
        return "has freed";
    default:
        return nullptr;
    }
}

const char *threads_model::step_driver(State &state) const {
    if (setup_.kills_context && !state.is_dead && state.launched == copies_) {
        state.is_dead = true;
        for (unsigned copy = 0; copy < copies_; ++copy)
            if (is_dead(state, copy) && state.copies[copy].at != kernel::over) state.copies[copy].at = kernel::failed;
        return "a context dies";
    }
    if (setup_.hears_of_death && !state.is_heard && state.launched != 0) {
        state.is_heard = true;
        if (has(threads_defect::death_inferred) || has(threads_defect::death_inferred_and_trapped)) lose(state, 0);
        return "a call returns the status of another context's death";
    }
    return nullptr;
}

const char *threads_model::step_stream(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    switch (one.at) {
    case kernel::queued:
        one.at = kernel::announced;
        if (is_enqueued_expected(copy)) return "comes to the kernel";
        expect(state, copy);
        return "runs the host function, which announces the run";
    case kernel::announced:
        if (has(threads_defect::work_in_submit_waits)) return nullptr; // the host function does not return
        one.at = kernel::running;
        return "starts the kernel";
    case kernel::running:
        if (!one.may_leave) return nullptr;
        one.may_leave = false;
        // Without an expected or running run, no thread moves the remaining chunks.
        if (one.chunks_left != 0 && one.now == run::none) state.error = bytes_missing;
        one.at = --one.launches_left != 0 ? kernel::queued : kernel::over;
        return "has passed the kernel";
    default:
        return nullptr;
    }
}

// ---- The program

bool threads_model::is_enqueued_expected(unsigned copy) const {
    if (setup_.copies[copy].is_captured) return has(threads_defect::announced_at_capture);
    return setup_.submit == submitting::no;
}

const char *threads_model::step_program(State &state, choices &way) const {
    switch (state.does) {
    case program::launches: {
        staged &one = state.copies[state.launched];
        const threads_setup::copy &wanted = setup_.copies[state.launched];
        one.launches_left = wanted.launches;
        one.chunks_left = wanted.chunks;
        one.at = wanted.launches != 0 ? kernel::queued : kernel::over;
        if (is_enqueued_expected(state.launched)) expect(state, state.launched);
        if (++state.launched == copies_) state.does = program::waits;
        return "enqueues a copy";
    }
    case program::waits: {
        for (unsigned copy = 0; copy < copies_; ++copy) {
            const staged &one = state.copies[copy];
            const bool is_passed = one.at == kernel::over || one.at == kernel::failed;
            if (!setup_.copies[copy].is_slow && !is_passed) return nullptr;
        }
        if (state.helps != helper::absent && state.helps != helper::done) return nullptr;
        if (state.frees == free::wants_lock || state.frees == free::holds_lock) return nullptr;
        state.does = setup_.closes ? program::closes : program::over;
        return "has waited for its streams";
    }
    case program::closes:
        return close(state, way);
    case program::joins:
        for (const thread &one : state.threads)
            if (one.at != resident::absent && one.at != resident::gone) return nullptr;
        state.does = program::over;
        return "has closed";
    case program::over:
        return nullptr;
    }
    return nullptr;
}

const char *threads_model::close(State &state, choices &way) const {
    if (!has_pending(state)) {
        state.is_closing = true;
        while (state.asleep != 0)
            wake(state);
        state.does = program::joins;
        return "ends its threads";
    }
    const unsigned copy = has(threads_defect::close_asks_one_context) ? 0 : way.pick(copies_);
    if (!is_dead(state, copy) || state.copies[copy].is_lost) return nullptr;
    lose(state, copy);
    return "learns that a context is dead";
}

// ---- States

const char *threads_model::broken(const State &state) const {
    switch (state.error) {
    case bytes_missing:
        return "a stream reports success and bytes are missing";
    case live_context_lost:
        return "a copy is abandoned in a context that is alive";
    default:
        return nullptr;
    }
}

bool threads_model::is_end(const State &state) const { return state.does == program::over; }

fingerprint threads_model::identify(const State &state) const {
    fingerprint all;
    all.add_bytes(state);
    return all;
}

} // namespace ferry::protocol
