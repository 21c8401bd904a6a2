// The program around a ring, which enqueues copies, waits and verifies the bytes. Also creates and identifies states.
#include <algorithm>

#include "ring_model.h"

namespace ferry::protocol {

namespace {

template <class All, class Is> bool all_of(const All &all, unsigned count, const Is &is) {
    return std::all_of(std::begin(all), std::begin(all) + count, is);
}

} // namespace

ring_model::State ring_model::first() {
    State state = {memory(views_, launches_left + 1, 2 * max_chunks + max_slots), {}};
    state.shared.begin_first(the_program);
    state.shared.begin(mutex_thread(), side::host, the_program);
    state.shared.loads_no_more(mutex_thread());
    state.at.one.free_slots = (1U << slots()) - 1;
    for (unsigned worker = 0; worker < setup_.workers; ++worker)
        state.shared.begin(thread_of_worker(worker), side::host, the_program);
    return state;
}

std::string ring_model::actor(unsigned which) const {
    if (which == the_program) return "program";
    if (which <= setup_.workers) return "thread " + std::to_string(which);
    const unsigned launch = (which - 1 - setup_.workers) / (1 + setup_.blocks);
    const unsigned within = which - stream_of(launch);
    const std::string name = "launch " + std::to_string(launch + 1);
    return within == 0 ? name : name + ", block " + std::to_string(within);
}

// Each round of a program copies different bytes, so that stale bytes are detected.
std::uint16_t ring_model::content(const State &state, unsigned chunk) const {
    const unsigned round = is_at_once() ? 1 : state.at.round;
    return static_cast<std::uint16_t>(round << 4 | (chunk + 1));
}

const char *ring_model::step(State &state, unsigned which, choices &way) {
    const control before = state.at;
    const char *done = nullptr;
    if (which == the_program) {
        done = step_program(state, way);
    } else if (which <= setup_.workers) {
        done = step_worker(state, which - 1, way);
    } else {
        const unsigned launch = (which - 1 - setup_.workers) / (1 + setup_.blocks);
        const unsigned within = which - stream_of(launch);
        done = within == 0 ? step_stream(state, launch) : step_block(state, launch, within - 1, way);
    }
    // A check that finds nothing only restricts what the thread may read later. Everything that can follow the check
    // can also follow without it.
    if (std::memcmp(&before, &state.at, sizeof before) == 0 && !state.shared.broken()) return nullptr;
    state.shared.forget_unreadable();
    return done;
}

const char *ring_model::step_program(State &state, choices &way) {
    control &at = state.at;
    switch (at.program) {
    case program_state::prepares:
        ++at.round;
        at.program = program_state::takes;
        if (is_at_once() && at.round == 2) return "goes on"; // the same bytes
        for (unsigned chunk = 0; chunk < setup_.chunks; ++chunk)
            state.shared.write(the_program, source(chunk), content(state, chunk));
        return "writes the source";
    case program_state::takes:
        if (at.round == 2 && is_captured(2))
            at.program = program_state::launches;
        else if (!take(state, way))
            return nullptr;
        return "takes the record";
    case program_state::launches: {
        const unsigned launch = at.round - 1U;
        at.launches[launch].at = launch_state::queued;
        at.launches[launch].is_shared = is_captured(at.round);
        state.shared.begin(stream_of(launch), side::host, the_program);
        const bool is_next = is_at_once() && at.round == 1;
        at.program = is_next ? program_state::prepares : program_state::waits;
        return "launches";
    }
    case program_state::waits:
        return wait(state, way);
    case program_state::checks:
        return check(state);
    case program_state::over:
        return nullptr;
    }
    return nullptr;
}

// Under the mutex, like staging_scheduler::take(), after recycle() if the record was used before.
bool ring_model::take(State &state, choices &way) {
    host_record &one = state.at.one;
    state.shared.pass(mutex_thread(), the_program);
    if (one.at == record_state::leaving) {
        for (unsigned block = 0; block < setup_.blocks; ++block) {
            const std::uint16_t word = load_seen(state, the_program, block, way);
            const bool has_left = word >> 8 == one.channels[block].ended << 1;
            if (!has_left && !has(ring_defect::record_reused_before_left)) return false;
        }
        one.at = record_state::unused;
    }
    // The driver calls the function that releases the record once the graph and all its launches no longer exist.
    if (one.at == record_state::launched) {
        if (state.at.launches[0].at != launch_state::over && !has(ring_defect::given_back_by_destroy)) return false;
        state.shared.pass(stream_of(0), the_program);
        one.at = record_state::unused;
    }
    if (one.at != record_state::unused) return false;
    one.at = record_state::launched;
    one.is_captured = is_captured(state.at.round);
    if (!one.is_captured) state.shared.store(the_program, launches_left, 1, order::relaxed, scope::system);
    if (!one.is_captured || has(ring_defect::announced_at_capture_only)) expect(state, the_program);
    state.shared.pass(the_program, mutex_thread());
    state.at.program = program_state::launches;
    return true;
}

// Under the mutex.
void ring_model::expect(State &state, unsigned thread) {
    host_record &one = state.at.one;
    state.shared.pass(mutex_thread(), thread);
    ++one.runs_expected;
    if (one.at == record_state::launched) one.at = record_state::expected;
    state.shared.pass(thread, mutex_thread());
}

const char *ring_model::wait(State &state, choices &way) {
    control &at = state.at;
    if (setup_.how == use::again_after_ticket) {
        if (state.shared.load(the_program, launches_left, order::acquire, scope::system, way) != 0) return "waits";
        at.program = program_state::checks;
        return "learns from its ticket that the copy is done";
    }
    for (unsigned launch = 0; launch < at.round; ++launch) {
        if (at.launches[launch].at != launch_state::over) return nullptr;
        state.shared.pass(stream_of(launch), the_program);
        state.shared.end(stream_of(launch));
    }
    at.program = program_state::checks;
    return "has waited for the stream";
}

const char *ring_model::check(State &state) {
    for (unsigned chunk = 0; chunk < setup_.chunks; ++chunk)
        if (state.shared.read(the_program, destination(chunk)) != content(state, chunk))
            state.shared.break_with("a copy is done and bytes are missing");
    state.at.program = state.at.round < launches() ? program_state::prepares : program_state::over;
    return "checks the destination";
}

bool ring_model::is_end(const State &state) const {
    const control &at = state.at;
    const bool is_idle = at.one.at == (is_captured(launches()) ? record_state::launched : record_state::leaving);
    return at.program == program_state::over && is_idle && at.one.free_slots == (1U << slots()) - 1 &&
           all_of(at.workers, setup_.workers, [](const worker &one) { return !one.is_at_channel; }) &&
           all_of(at.launches, launches(), [](const launch &one) { return one.at == launch_state::over; });
}

fingerprint ring_model::identify(const State &state) const {
    fingerprint all;
    state.shared.identify(all);
    all.add_bytes(state.at);
    return all;
}

} // namespace ferry::protocol
