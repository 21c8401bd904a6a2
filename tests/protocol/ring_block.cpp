// The kernel's half: a block of copy_by_ring() in kernels/ring.h, and the stream that launches it.
#include "ring_model.h"

namespace ferry::protocol {

namespace {

// Same as in ring_record::seen: messages completed, and twice the runs left plus 1 while a block is present.
constexpr std::uint16_t seen_word(unsigned messages, unsigned doors) {
    return static_cast<std::uint16_t>(doors << 8 | messages);
}

} // namespace

const char *ring_model::step_stream(State &state, unsigned which) {
    launch &mine = state.at.launches[which];
    const unsigned stream = stream_of(which);
    switch (mine.at) {
    case launch_state::queued:
        mine.at = launch_state::announced;
        if (!mine.is_shared || has(ring_defect::announced_at_capture_only)) return "the stream comes to the kernel";
        expect(state, stream);
        return "the host function announces the run";
    case launch_state::announced:
        for (unsigned block = 0; block < setup_.blocks; ++block) {
            state.shared.begin(thread_of_block(which, block), side::device, stream);
            mine.blocks[block].at = block_state::locking;
        }
        state.shared.loads_no_more(stream);
        mine.at = launch_state::running;
        return "the kernel starts";
    case launch_state::running:
        for (unsigned block = 0; block < setup_.blocks; ++block)
            if (mine.blocks[block].at != block_state::gone) return nullptr;
        mine.at = launch_state::over;
        return "the kernel is over";
    default:
        return nullptr;
    }
}

const char *ring_model::step_block(State &state, unsigned launch, unsigned block, choices &way) {
    switch (state.at.launches[launch].blocks[block].at) {
    case block_state::locking:
        return enter(state, launch, block, way);
    case block_state::polling:
        return poll(state, launch, block, way);
    case block_state::working:
        return work(state, launch, block, way);
    default:
        return nullptr;
    }
}

const char *ring_model::enter(State &state, unsigned which, unsigned block, choices &way) {
    const unsigned thread = thread_of_block(which, block);
    if (is_locked(state, which)) {
        if (state.shared.newest(location(block, lock)) != 0) return nullptr;
        state.shared.exchange(thread, location(block, lock), 1, scope::device);
    }
    kernel_block &me = state.at.launches[which].blocks[block];
    const std::uint16_t before = state.shared.load(thread, location(block, seen), order::acquire, scope::system, way);
    me.messages = static_cast<std::uint8_t>(before);
    me.doors = static_cast<std::uint8_t>(before >> 8);
    if (!has(ring_defect::door_in_not_counted)) ++me.doors;
    state.shared.store(thread, location(block, seen), seen_word(me.messages, me.doors), order::relaxed, scope::system);
    me.at = block_state::polling;
    return "enters";
}

// Reads both words of a message in the order of kernels/ring.h. `by` is the order of the last load.
bool ring_model::read_message(State &state, unsigned thread, unsigned block, kernel_block &me, order by, choices &way) {
    const auto load = [&](unsigned which, order how) {
        return state.shared.load(thread, word(block, me.messages, which), how, scope::system, way);
    };
    const std::uint16_t slot = load(0, order::relaxed), chunk = load(1, by);
    const unsigned wanted = mark(me.messages);
    if ((slot & 1U) != wanted) return false;
    if ((chunk & 1U) != wanted && !has(ring_defect::only_first_mark_checked)) return false;
    me.slot = static_cast<std::uint8_t>(slot >> 1);
    me.chunk = static_cast<std::uint8_t>(chunk >> 1);
    me.at = block_state::working;
    return true;
}

const char *ring_model::poll(State &state, unsigned which, unsigned block, choices &way) {
    const unsigned thread = thread_of_block(which, block);
    kernel_block &me = state.at.launches[which].blocks[block];
    const std::uint16_t runs = state.shared.load(thread, location(block, ended), order::relaxed, scope::system, way);
    const order by = has(ring_defect::message_not_acquired) ? order::relaxed : order::acquire;
    if (read_message(state, thread, block, me, by, way)) return "finds a message";
    if (runs == me.doors >> 1) return "finds nothing";
    if (!has(ring_defect::end_not_acquired)) state.shared.fence(thread, scope::system);
    leave(state, which, block);
    return "finds the end of the run and leaves";
}

void ring_model::leave(State &state, unsigned which, unsigned block) {
    const unsigned thread = thread_of_block(which, block);
    kernel_block &me = state.at.launches[which].blocks[block];
    if (!has(ring_defect::door_out_not_counted)) ++me.doors;
    state.shared.store(thread, location(block, seen), seen_word(me.messages, me.doors), order::relaxed, scope::system);
    if (is_locked(state, which)) state.shared.exchange(thread, location(block, lock), 0, scope::device);
    state.shared.pass(thread, stream_of(which));
    state.shared.end(thread);
    me = {block_state::gone, 0, 0, 0, 0};
}

const char *ring_model::work(State &state, unsigned which, unsigned block, choices &way) {
    const unsigned thread = thread_of_block(which, block);
    kernel_block &me = state.at.launches[which].blocks[block];
    const kernel_block message = me;
    const auto copy = [&] {
        const unsigned from = setup_.to_device ? slot(message.slot) : source(message.chunk);
        const unsigned to = setup_.to_device ? destination(message.chunk) : slot(message.slot);
        const std::uint16_t bytes = state.shared.read(thread, from);
        if (bytes != content(state, message.chunk)) state.shared.break_with("a block reads the bytes of another chunk");
        state.shared.write(thread, to, bytes);
    };
    ++me.messages;
    // The kernel issues the early read before the copy. Its loads may be performed as late as the fence, and then
    // return newer values.
    const bool has_next = read_message(state, thread, block, me, order::relaxed, way);
    if (!has(ring_defect::seen_before_copy)) copy();
    const bool is_narrow =
        setup_.to_device && (has(ring_defect::fence_of_the_device) || has(ring_defect::fence_after_match));
    const bool is_fenced = !has(ring_defect::no_fence_before_seen) && !has(ring_defect::early_read_not_acquired);
    if (is_fenced) state.shared.fence(thread, is_narrow ? scope::device : scope::system);
    const order by = has(ring_defect::early_read_not_acquired) ? order::release : order::relaxed;
    state.shared.store(thread, location(block, seen), seen_word(me.messages, me.doors), by, scope::system);
    if (has(ring_defect::seen_before_copy)) copy();
    if (!has_next) {
        me.at = block_state::polling;
        return "copies a chunk";
    }
    if (has(ring_defect::fence_after_match)) state.shared.fence(thread, scope::system);
    return "copies a chunk and has read the next message early";
}

} // namespace ferry::protocol
