// The scheduler's threads as in staging_scheduler::serve(): which threads look for work, sleep and are woken, and by
// which thread.
#include "threads_model.h"

#include <algorithm>

namespace ferry::protocol {

using submitting = threads_setup::submitting;

threads_model::threads_model(const threads_setup &setup, threads_defect defect) : setup_(setup), defect_(defect) {
    while (copies_ < max_copies && setup_.copies[copies_].chunks != 0)
        ++copies_;
}

threads_model::State threads_model::first() const {
    State state = {};
    for (unsigned which = 0; which < setup_.residents; ++which)
        state.threads[which].at = resident::looks;
    state.awake = setup_.residents;
    if (setup_.program_helps || setup_.submit == submitting::only_worker_waits) state.helps = helper::looks;
    if (setup_.frees) state.frees = free::wants_lock;
    return state;
}

std::string threads_model::actor(unsigned which) const {
    if (which == the_program) return "program";
    if (which == the_helper) return "waiting caller";
    if (which == the_freeing) return "freeing thread";
    if (which == the_driver) return "driver";
    if (which >= first_stream && which < first_thread)
        return "stream of copy " + std::to_string(which - first_stream + 1);
    if (which == the_notifying) return "waking thread";
    return "thread " + std::to_string(which - first_thread + 1);
}

const char *threads_model::step(State &state, unsigned which, choices &way) const {
    switch (which) {
    case the_program:
        return step_program(state, way);
    case the_helper:
        return step_helper(state, way);
    case the_freeing:
        return step_free(state);
    case the_driver:
        return step_driver(state);
    case the_notifying:
        return notify(state, way);
    default:
        if (which < first_thread) return step_stream(state, which - first_stream);
        return step_thread(state, which - first_thread, way);
    }
}

// ---- The scheduler

bool threads_model::has_work(const State &state) const {
    return std::any_of(state.copies, state.copies + copies_,
                       [](const staged &one) { return one.now != run::none && !one.is_lost; });
}

bool threads_model::has_pending(const State &state) const {
    for (unsigned copy = 0; copy < copies_; ++copy) {
        const staged &one = state.copies[copy];
        if (one.is_lost) continue;
        // A copy that is not captured is pending until its blocks have left. In a dead context they never report that.
        const bool is_leaving = !setup_.copies[copy].is_captured && copy < state.launched && one.at != kernel::over;
        if (one.runs_expected != 0 || is_leaving) return true;
    }
    return false;
}

void threads_model::wake(State &state) const {
    if (state.asleep == 0) return;
    --state.asleep;
    ++state.called;
    ++state.wakes;
    ++state.to_notify;
}

void threads_model::expect(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    ++one.runs_expected;
    if (one.now == run::none) one.now = run::expected;
    if (state.idle + state.called == 0 && !has(threads_defect::watcher_not_woken)) wake(state);
}

// Starts the run if its kernel has started. Returns whether there is a chunk for another thread.
bool threads_model::begin_or_find(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    if (one.is_lost) return false;
    if (one.now == run::expected && one.at == kernel::running && !one.may_leave) {
        one.now = run::running;
        one.next_chunk = 0;
        one.chunks_left = setup_.copies[copy].chunks;
    }
    return one.now == run::running && one.next_chunk < setup_.copies[copy].chunks;
}

// The last free thread enters only a copy without threads, so that no copy occupies all threads.
bool threads_model::may_enter(const State &state, unsigned copy) const {
    const unsigned free = state.awake + state.asleep + state.called - state.in_copies;
    return free > 1 || state.copies[copy].inside == 0 || has(threads_defect::any_thread_enters_any_copy);
}

void threads_model::enter(State &state, unsigned copy) const {
    ++state.copies[copy].next_chunk;
    ++state.copies[copy].inside;
}

void threads_model::leave(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    --one.inside;
    --one.chunks_left;
    if (one.chunks_left == 0 && one.inside == 0 && !one.is_lost) end_run(state, copy);
}

void threads_model::end_run(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    --one.runs_expected;
    one.now = one.runs_expected != 0 ? run::expected : run::none;
    one.may_leave = true;
}

void threads_model::lose(State &state, unsigned copy) const {
    staged &one = state.copies[copy];
    one.is_lost = true;
    one.now = run::none;
    one.runs_expected = 0;
    if (one.at == kernel::over || one.at == kernel::failed) return;
    if (has(threads_defect::death_inferred)) {
        one.may_leave = true;
        return;
    }
    one.at = kernel::failed; // it traps
    if (!is_dead(state, copy)) state.error = live_context_lost;
}

// ---- Threads

const char *threads_model::step_thread(State &state, unsigned which, choices &way) const {
    thread &me = state.threads[which];
    switch (me.at) {
    case resident::absent: {
        const unsigned started = state.awake + state.asleep + state.called;
        const bool is_spare = which < setup_.residents + setup_.spares && state.in_copies == started &&
                              !has(threads_defect::no_spare_thread);
        // A thread of the library takes work that `submit` has rejected or run before the kernel.
        const bool is_left = setup_.submit == submitting::refused || setup_.submit == submitting::runs_at_once;
        const bool is_substitute = which == 0 && is_left && !has(threads_defect::refusal_ignored);
        if (!has_work(state) || !(is_spare || is_substitute)) return nullptr;
        me.at = resident::looks;
        ++state.awake;
        return "is started";
    }
    case resident::looks:
        return look(state, me, way);
    case resident::idles:
        --state.idle;
        me.at = resident::looks;
        return "looks again";
    case resident::rests:
        me.at = resident::looks;
        return "looks again after a rest";
    case resident::in_copy:
        if (setup_.copies[me.copy].is_slow) return nullptr; // its page never arrives
        leave(state, me.copy);
        --state.in_copies;
        me = {resident::looks, 0, 0};
        return "has moved its chunk";
    case resident::falls_asleep:
        if (has(threads_defect::wait_value_read_unlocked)) me.wakes_seen = state.wakes;
        me.at = me.wakes_seen == state.wakes ? resident::asleep : resident::looks;
        if (me.at == resident::asleep) return "waits";
        break; // meanwhile this thread or another was called
    case resident::woken:
        break;
    default:
        return nullptr;
    }
    if (state.called == 0) {
        me = {resident::falls_asleep, 0, state.wakes};
        return "wakes for another call and sleeps again";
    }
    --state.called;
    ++state.awake;
    me = {resident::looks, 0, 0};
    return "wakes";
}

// Notifies a waiting thread. If no thread is waiting at that moment, the notification is lost.
const char *threads_model::notify(State &state, choices &way) const {
    if (state.to_notify == 0) return nullptr;
    --state.to_notify;
    thread *waiting[max_residents] = {};
    unsigned count = 0;
    for (thread &one : state.threads)
        if (one.at == resident::asleep) waiting[count++] = &one;
    if (count == 0) return "wakes no thread";
    waiting[way.pick(count)]->at = resident::woken;
    return "wakes a thread";
}

const char *threads_model::look(State &state, thread &me, choices &way) const {
    if (state.is_closing) {
        --state.awake;
        me = {resident::gone, 0, 0};
        return "ends";
    }
    unsigned found[max_copies] = {}, count = 0;
    for (unsigned copy = 0; copy < copies_; ++copy)
        if (begin_or_find(state, copy) && may_enter(state, copy)) found[count++] = copy;
    if (count != 0) {
        me.copy = static_cast<std::uint8_t>(found[way.pick(count)]);
        me.at = resident::in_copy;
        enter(state, me.copy);
        ++state.in_copies;
        // Another thread must now look for work.
        const bool has_more = state.copies[me.copy].next_chunk < setup_.copies[me.copy].chunks;
        const bool is_wanted = has_more || !has(threads_defect::last_looker_wakes_nobody);
        if (state.idle + state.called == 0 && is_wanted) wake(state);
        return "takes a chunk";
    }
    if (way.pick(2) == 0) {
        ++state.idle;
        me.at = resident::idles;
        return "finds nothing";
    }
    const bool is_only_one = state.awake - state.in_copies == 1;
    if (has_work(state) && is_only_one && !has(threads_defect::last_looker_sleeps)) {
        me.at = resident::rests;
        return "rests, as the only one that looks";
    }
    --state.awake;
    ++state.asleep;
    if (state.called != 0) {
        --state.called;
        ++state.awake;
        return "takes another's call";
    }
    me = {resident::falls_asleep, 0, state.wakes};
    return "goes to sleep";
}

} // namespace ferry::protocol
