// Models a staged copy with one record step by step: blocks as in kernels/ring.h, host threads as in
// staging/channel.cpp and staging/scheduler.cpp, and a surrounding program. All accesses use the memory model. A
// section under the scheduler's mutex is one step; docs/protocol.md explains why this loses nothing.
#pragma once

#include <string>

#include "memory_model.h"

namespace ferry::protocol {

// How the program uses the record.
enum class use : std::uint8_t {
    once,
    again_after_ticket, // another copy, on another stream, takes the record once a ticket reports the first as done
    again_after_stream, // another copy takes the record once the first has completed on the stream
    captured_in_turn,   // a graph is launched twice on one stream
    captured_at_once,   // a graph is launched on two streams
    captured_once,      // a graph is launched and destroyed, and another copy takes the record
};

struct ring_setup {
    const char *name;
    bool to_device;
    use how;
    unsigned blocks, workers, chunks;
};

// Defects of the ring. The tests put each defect back into the protocol individually.
enum class ring_defect : std::uint8_t {
    none,
    fence_of_the_device,     // to the device: the fence before `seen` has device scope only
    fence_after_match,       // as before, but a fence of system scope follows a match of the early read
    early_read_not_acquired, // `seen` is released at system scope, but the early read is not acquired
    no_fence_before_seen,
    seen_before_copy,
    end_not_acquired, // the block leaves after a relaxed load of `ended`, without a fence
    message_not_acquired,
    message_not_released,
    marks_never_flip,
    only_first_mark_checked,
    door_in_not_counted,
    door_out_not_counted,
    streams_not_ended, // no sfence after streamed stores
    seen_not_acquired,
    slot_back_before_seen,
    more_messages_than_places,
    end_before_last_completed,
    reported_before_completed,
    record_reused_before_left,
    shared_record_not_locked,
    announced_at_capture_only,
    given_back_by_destroy, // destroying a graph returns its record while a launch may still run
};

class ring_model {
public:
    static constexpr unsigned places = 2, max_blocks = 2, max_workers = 2, max_slots = 3, max_launches = 2;

    ring_model(const ring_setup &setup, ring_defect defect) : setup_(setup), defect_(defect) {}

    struct channel {
        std::uint8_t published, taken_back, ended;
        std::uint8_t idle;                    // slots, as a bit mask
        std::uint8_t published_slots[places]; // the slot of each published message
        bool is_present, is_taken;
    };
    enum class record_state : std::uint8_t { unused, launched, expected, running, leaving };
    struct host_record {
        record_state at;
        bool is_captured;
        std::uint8_t runs_expected, next_chunk, chunks_left, busy, free_slots;
        std::uint8_t chunk_in[max_slots];
        channel channels[max_blocks];
    };
    enum class block_state : std::uint8_t { absent, locking, polling, working, gone };
    struct kernel_block {
        block_state at;
        std::uint8_t messages, doors, slot, chunk;
    };
    enum class launch_state : std::uint8_t { absent, queued, announced, running, over };
    struct launch {
        launch_state at;
        bool is_shared;
        kernel_block blocks[max_blocks];
    };
    struct worker {
        bool is_at_channel;
        std::uint8_t block;
    };
    enum class program_state : std::uint8_t { prepares, takes, launches, waits, checks, over };
    struct control { // the whole state except the memory
        program_state program;
        std::uint8_t round; // copies or launches so far
        host_record one;
        worker workers[max_workers];
        launch launches[max_launches];
    };
    struct State {
        memory shared;
        control at;
    };

    State first();
    unsigned actors() const { return 1 + setup_.workers + launches() * (1 + setup_.blocks); }
    std::string actor(unsigned which) const;
    const char *step(State &state, unsigned actor, choices &way);
    const char *broken(const State &state) const { return state.shared.broken(); }
    bool is_end(const State &state) const;
    fingerprint identify(const State &state) const;

private:
    bool has(ring_defect which) const { return defect_ == which; }
    // Rounds count from 1.
    bool is_captured(unsigned round) const {
        if (setup_.how == use::captured_once) return round == 1;
        return setup_.how == use::captured_in_turn || setup_.how == use::captured_at_once;
    }
    // Both launches are in flight at the same time, and copy the same bytes.
    bool is_at_once() const { return setup_.how == use::captured_at_once || setup_.how == use::captured_once; }
    bool is_locked(const State &state, unsigned launch) const {
        return state.at.launches[launch].is_shared && !has(ring_defect::shared_record_not_locked);
    }
    unsigned launches() const { return setup_.how == use::once ? 1 : 2; }

    // ---- Locations in the memory model
    enum block_location : unsigned { ended, seen, lock, words, per_block = words + 2 * places };
    static constexpr unsigned max_chunks = 4;
    static unsigned location(unsigned block, unsigned which) { return block * per_block + which; }
    static unsigned word(unsigned block, unsigned number, unsigned which) {
        return location(block, words + number % places * 2 + which);
    }
    static constexpr unsigned launches_left = max_blocks * per_block;
    static unsigned source(unsigned chunk) { return chunk; }
    static unsigned destination(unsigned chunk) { return max_chunks + chunk; }
    static unsigned slot(unsigned which) { return 2 * max_chunks + which; }

    // ---- Threads of the memory model
    static constexpr unsigned the_program = 0;
    unsigned thread_of_worker(unsigned which) const { return 1 + which; }
    unsigned stream_of(unsigned launch) const { return 1 + setup_.workers + launch * (1 + setup_.blocks); }
    unsigned thread_of_block(unsigned launch, unsigned block) const { return stream_of(launch) + 1 + block; }
    unsigned mutex_thread() const { return actors(); } // its view is what a thread acquires when it locks the mutex

    std::uint16_t content(const State &state, unsigned chunk) const;
    unsigned mark(unsigned number) const { return has(ring_defect::marks_never_flip) ? 1 : ~(number / places) & 1; }

    const char *step_program(State &state, choices &way);
    const char *wait(State &state, choices &way);
    const char *check(State &state);
    bool take(State &state, choices &way);
    void expect(State &state, unsigned thread);

    const char *step_stream(State &state, unsigned launch);
    const char *step_block(State &state, unsigned launch, unsigned block, choices &way);
    const char *enter(State &state, unsigned launch, unsigned block, choices &way);
    const char *poll(State &state, unsigned launch, unsigned block, choices &way);
    const char *work(State &state, unsigned launch, unsigned block, choices &way);
    void leave(State &state, unsigned launch, unsigned block);
    bool read_message(State &state, unsigned thread, unsigned block, kernel_block &me, order by, choices &way);

    const char *step_worker(State &state, unsigned worker, choices &way);
    const char *look(State &state, unsigned worker, choices &way);
    const char *advance(State &state, unsigned worker, choices &way);
    const char *complete(State &state, unsigned worker);
    void begin_run(State &state);
    bool end_if_done(State &state, unsigned thread);
    void look_at(State &state, unsigned block, std::uint16_t seen_there);
    void publish_more(State &state, unsigned thread, unsigned block);
    void report_end(State &state, unsigned thread);
    bool supply(State &state, channel &of) const;
    void release(State &state, channel &of) const;
    unsigned slots() const { return has(ring_defect::more_messages_than_places) ? places + 1 : places; }
    unsigned slots_each() const { return slots() / setup_.blocks; }
    std::uint16_t load_seen(State &state, unsigned thread, unsigned block, choices &way) const;

    ring_setup setup_;
    ring_defect defect_;
    view_pool views_;
};

} // namespace ferry::protocol
