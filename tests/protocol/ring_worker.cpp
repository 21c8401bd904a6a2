// The host's half of a ring: threads that look for work like staging_scheduler::serve(), and serve a channel like
// staging/channel.cpp. A step under the scheduler's mutex acquires what earlier owners of the mutex did, and releases
// its own effects.
#include "ring_model.h"

namespace ferry::protocol {

const char *ring_model::step_worker(State &state, unsigned which, choices &way) {
    if (!state.at.workers[which].is_at_channel) return look(state, which, way);
    return way.pick(2) == 0 ? advance(state, which, way) : complete(state, which);
}

std::uint16_t ring_model::load_seen(State &state, unsigned thread, unsigned block, choices &way) const {
    const order by = has(ring_defect::seen_not_acquired) ? order::relaxed : order::acquire;
    return state.shared.load(thread, location(block, seen), by, scope::system, way);
}

// ---- Under the mutex

const char *ring_model::look(State &state, unsigned which, choices &way) {
    host_record &one = state.at.one;
    const unsigned thread = thread_of_worker(which);
    if (one.at != record_state::expected && one.at != record_state::running) return nullptr;
    state.shared.pass(mutex_thread(), thread);
    std::uint16_t words[max_blocks] = {};
    bool has_come = false;
    for (unsigned block = 0; block < setup_.blocks; ++block) {
        words[block] = load_seen(state, thread, block, way);
        has_come = has_come || words[block] >> 8 == (one.channels[block].ended << 1 | 1);
    }
    const char *done = "looks";
    if (one.at == record_state::expected && has_come) {
        begin_run(state);
        done = "begins the run";
    }
    if (one.at == record_state::running) {
        unsigned eligible[max_blocks] = {}, count = 0;
        for (unsigned block = 0; block < setup_.blocks; ++block) {
            channel &mine = one.channels[block];
            if (mine.is_taken) continue;
            look_at(state, block, words[block]);
            if (one.next_chunk >= setup_.chunks) release(state, mine);
            const bool has_arrived = !setup_.to_device && mine.taken_back != (words[block] & 0xff);
            const bool has_room =
                mine.is_present && mine.published - mine.taken_back < int{places} && one.next_chunk < setup_.chunks;
            if (has_arrived || (has_room && supply(state, mine))) eligible[count++] = block;
        }
        if (count != 0) {
            const unsigned block = eligible[way.pick(count)];
            one.channels[block].is_taken = true;
            ++one.busy;
            state.at.workers[which] = {true, static_cast<std::uint8_t>(block)};
            done = "takes a channel";
        } else if (end_if_done(state, thread)) {
            done = "ends the run";
        }
    }
    state.shared.pass(thread, mutex_thread());
    return done;
}

const char *ring_model::complete(State &state, unsigned which) {
    const unsigned thread = thread_of_worker(which);
    worker &me = state.at.workers[which];
    host_record &one = state.at.one;
    state.shared.pass(mutex_thread(), thread);
    one.channels[me.block].is_taken = false;
    --one.busy;
    if (one.next_chunk >= setup_.chunks) release(state, one.channels[me.block]);
    const bool has_ended = end_if_done(state, thread);
    me = {};
    state.shared.pass(thread, mutex_thread());
    return has_ended ? "gives its channel up and ends the run" : "gives its channel up";
}

void ring_model::begin_run(State &state) {
    host_record &one = state.at.one;
    one.at = record_state::running;
    one.next_chunk = 0;
    one.chunks_left = static_cast<std::uint8_t>(setup_.chunks);
}

bool ring_model::end_if_done(State &state, unsigned thread) {
    host_record &one = state.at.one;
    const unsigned left =
        has(ring_defect::end_before_last_completed) ? setup_.chunks - one.next_chunk : one.chunks_left;
    if (one.at != record_state::running || one.busy != 0 || left != 0) return false;
    for (unsigned block = 0; block < setup_.blocks; ++block)
        release(state, one.channels[block]);
    if (!one.is_captured && !has(ring_defect::reported_before_completed)) report_end(state, thread);
    for (unsigned block = 0; block < setup_.blocks; ++block) {
        channel &mine = one.channels[block];
        ++mine.ended;
        mine.is_present = false;
        state.shared.store(thread, location(block, ended), mine.ended, order::release, scope::system);
    }
    --one.runs_expected;
    if (!one.is_captured)
        one.at = record_state::leaving;
    else
        one.at = one.runs_expected != 0 ? record_state::expected : record_state::launched;
    return true;
}

void ring_model::report_end(State &state, unsigned thread) {
    state.shared.exchange(thread, launches_left, 0, scope::system);
}

bool ring_model::supply(State &state, channel &of) const {
    host_record &one = state.at.one;
    const auto slots = [&] {
        return of.published - of.taken_back + static_cast<unsigned>(__builtin_popcount(of.idle));
    };
    while (slots() < slots_each() && one.free_slots != 0) {
        const auto first = static_cast<std::uint8_t>(one.free_slots & -one.free_slots);
        one.free_slots = static_cast<std::uint8_t>(one.free_slots ^ first);
        of.idle = static_cast<std::uint8_t>(of.idle | first);
    }
    return of.idle != 0;
}

void ring_model::release(State &state, channel &of) const {
    state.at.one.free_slots = static_cast<std::uint8_t>(state.at.one.free_slots | of.idle);
    of.idle = 0;
}

// ---- At a channel

void ring_model::look_at(State &state, unsigned block, std::uint16_t seen_there) {
    channel &mine = state.at.one.channels[block];
    mine.is_present = seen_there >> 8 == (mine.ended << 1 | 1);
    while (setup_.to_device && mine.taken_back != (seen_there & 0xff)) {
        if (!has(ring_defect::slot_back_before_seen))
            mine.idle = static_cast<std::uint8_t>(mine.idle | 1U << mine.published_slots[mine.taken_back % places]);
        ++mine.taken_back;
        --state.at.one.chunks_left;
    }
}

const char *ring_model::advance(State &state, unsigned which, choices &way) {
    const unsigned thread = thread_of_worker(which), block = state.at.workers[which].block;
    host_record &one = state.at.one;
    channel &mine = one.channels[block];
    const std::uint16_t seen_there = load_seen(state, thread, block, way);
    look_at(state, block, seen_there);
    if (setup_.to_device) {
        const unsigned before = mine.published;
        publish_more(state, thread, block);
        return mine.published != before ? "fills a slot and publishes it" : "has nothing to publish";
    }
    bool has_moved = false;
    if (mine.taken_back != (seen_there & 0xff)) {
        const unsigned from = mine.published_slots[mine.taken_back % places], chunk = one.chunk_in[from];
        const auto empty = [&] {
            state.shared.stream(thread, destination(chunk), state.shared.read(thread, slot(from)));
            if (!has(ring_defect::streams_not_ended)) state.shared.end_of_stream(thread);
        };
        const bool is_early = has(ring_defect::reported_before_completed) && one.chunks_left == 1;
        if (is_early)
            report_end(state, thread);
        else
            empty();
        --one.chunks_left;
        ++mine.taken_back;
        if (!has(ring_defect::slot_back_before_seen)) mine.idle = static_cast<std::uint8_t>(mine.idle | 1U << from);
        if (is_early) empty();
        has_moved = true;
    }
    const unsigned before = mine.published;
    publish_more(state, thread, block);
    if (has_moved) return "empties a slot";
    return mine.published != before ? "publishes free slots" : "has nothing to publish";
}

// To the device, publishes one chunk, because filling a slot takes long. To the host, publishes all chunks for which
// there is space.
void ring_model::publish_more(State &state, unsigned thread, unsigned block) {
    host_record &one = state.at.one;
    channel &mine = one.channels[block];
    const int room = has(ring_defect::more_messages_than_places) ? int{places} + 1 : int{places};
    while (mine.is_present && mine.published - mine.taken_back < room && mine.idle != 0 &&
           one.next_chunk < setup_.chunks) {
        const unsigned to = static_cast<unsigned>(__builtin_ctz(mine.idle)), chunk = one.next_chunk++;
        mine.idle = static_cast<std::uint8_t>(mine.idle & (mine.idle - 1U));
        one.chunk_in[to] = static_cast<std::uint8_t>(chunk);
        if (setup_.to_device) {
            state.shared.stream(thread, slot(to), state.shared.read(thread, source(chunk)));
            if (!has(ring_defect::streams_not_ended)) state.shared.end_of_stream(thread);
        }
        const unsigned marked = mark(mine.published);
        const order by = has(ring_defect::message_not_released) ? order::relaxed : order::release;
        const auto put = [&](unsigned which, unsigned value) {
            state.shared.store(thread, word(block, mine.published, which),
                               static_cast<std::uint16_t>(value << 1 | marked), by, scope::system);
        };
        put(0, to);
        put(1, chunk);
        mine.published_slots[mine.published % places] = static_cast<std::uint8_t>(to);
        ++mine.published;
        if (has(ring_defect::slot_back_before_seen)) mine.idle = static_cast<std::uint8_t>(mine.idle | 1U << to);
        if (setup_.to_device) return;
    }
}

} // namespace ferry::protocol
