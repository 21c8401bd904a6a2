// The blocks of a pinned pool that were freed on a stream. Each block waits for an event recorded on that stream. Each
// class of blocks has one queue per stream, in the order of the frees. The driver does not report when an event
// completes, so the pool queries events when it needs a block.
//
// The pool's mutex guards everything here. A function with a `held` lock unlocks it during driver calls.
#pragma once

#include <optional>

#include "device/stream_key.h"
#include "memory/pinned_slabs.h"

namespace ferry {

// If streams have no numbers, an allocation makes its stream wait even for a block that was freed on "the same stream".
// The wait costs almost nothing if it is the same stream.
struct stream_use {
    CUstream stream;
    stream_key key;
};

struct block_wait {
    CUevent event;
    stream_key on; // stream of the last record; its context owns the event
    pinned_block *held;
    block_wait *previous, *next; // in a queue or in the list of spare waits
    std::uint64_t began;         // sequence number before the last record
    std::uint64_t number;        // sequence number after the last record; gives the order of the frees
    bool is_queried;             // by a thread that has unlocked the mutex: the wait must stay in place
};

struct stream_queue {
    stream_key on;
    chain<block_wait> waits;
    stream_queue *previous, *next;
};

class pinned_waits {
public:
    pinned_waits(const driver_table &cu, device_contexts &contexts, const allocator &memory,
                 pinned_slabs &slabs) noexcept
        : cu_(cu), contexts_(contexts), memory_(memory), slabs_(slabs), events_(memory) {}

    // Enters the stream's context, or the right context for a default stream. Rejects a stream that is being captured.
    error enter_stream(CUstream stream, context_scope &scope, stream_use &use) noexcept;

    // Records an event on the stream and adds the block to the stream's queue.
    error record(pinned_block &leaving, const stream_use &use, pool_lock &held) noexcept;
    void enqueue(pinned_block &one, block_wait &behind) noexcept;

    // The oldest wait of a stream, and of any stream. Null if there is none or all of them are being queried.
    block_wait *first_of(const stream_key &on, int block_class) const noexcept;
    block_wait *oldest(int block_class) const noexcept;
    // Makes `stream` wait for `chosen` and takes the block of `chosen`.
    error take_behind(block_wait &chosen, CUstream stream, pool_lock &held, pinned_block *&found) noexcept;

    unsigned count_streams(int block_class) const noexcept;
    // Queries events of one stream, in rotation over the streams, and returns a block whose work is complete. Begins
    // with the latest of several events, because a completed event proves the earlier ones. After each miss it halves
    // the distance to the oldest event. Other blocks that prove complete become ready. Returns null if no block is
    // complete. In that case, `turns` decreases by one, or becomes 0 if there is no event to query.
    pinned_block *find_completed(int block_class, unsigned &turns, pool_lock &held) noexcept;
    // Makes all completed blocks ready.
    void collect(pool_lock &held) noexcept;

    // Waits for all events, makes all blocks ready and destroys the events.
    [[gnu::cold]] error close() noexcept;

private:
    struct context_events {
        context_name context;
        chain<block_wait> spare;
    };

    static block_wait *first_unqueried(const stream_queue &queue) noexcept;
    static std::size_t count_unqueried(const stream_queue &queue) noexcept; // at most max_covered
    static block_wait *unqueried_at(const stream_queue &queue, std::size_t index) noexcept;
    static stream_queue *find_queue(const chain<stream_queue> &queues, const stream_key &on) noexcept;
    context_events *find_events(const context_name &context) noexcept;

    void dequeue(block_wait &done) noexcept;
    void keep_spare(block_wait &done) noexcept;
    void forget_events(const context_name &dead) noexcept;
    void drop(block_wait &dead) noexcept;
    // Calls `call` with the event, without the mutex. Passing an event that was destroyed with its context crashes
    // drivers (CUDA 13.0): for such an event, the call is skipped and there is no status.
    template <class Call>
    std::optional<status_code> call_unlocked(block_wait &wait, pool_lock &held, const Call &call) noexcept;
    status_code query(const context_name &context, CUevent event) noexcept;
    // Removes a wait whose work is complete, and returns its block.
    pinned_block &end(block_wait &done, bool is_event_gone) noexcept;
    // Takes a spare wait with an event of `context`, or else creates a wait.
    [[gnu::cold]] error take_wait(const context_name &context, pool_lock &held, block_wait *&taken,
                                  bool &is_new) noexcept;
    [[gnu::cold]] error make_event(CUcontext context, CUevent &event) noexcept;
    void release_before(const block_wait &done, stream_queue &queue) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    const allocator &memory_;
    pinned_slabs &slabs_;

    chain<stream_queue> queues_[block_class_count]; // no queue is empty
    chain<stream_queue> spare_queues_;              // queues, spare and in use, are as many as waits
    growing<context_events> events_;
    std::uint64_t next_number_ = 0;
};

} // namespace ferry
