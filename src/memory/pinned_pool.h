// A pool of pinned host memory for blocks that are allocated and freed often.
//
// Each slab holds blocks of one class. A block freed on a stream waits for an event recorded on that stream. Each class
// has one queue of waiting blocks per stream, in the order of the frees. There is no notification when a stream passes
// an event: an allocation that finds no ready block queries the events.
//
// No driver call runs under the mutex. A driver call may wait for room in a hardware queue, the queue for a host
// function of the program, and the host function may free a block.
#pragma once

#include <cstddef>
#include <mutex>

#include "base/chain.h"
#include "base/growing.h"
#include "device/context_name.h"
#include "memory/block_class.h"
#include "memory/pinned.h"

namespace ferry {

class pinned_pool {
public:
    // Who uses the blocks. A program knows the context with which its blocks end. A pool of the instance hands out no
    // block from a slab that was allocated before the contexts in use changed.
    enum class use { of_program, of_instance };

    // Slabs are allocated as `request` says, in the context in use for `device`. A limit of 0 means no limit.
    pinned_pool(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const allocator &memory,
                const host_request &request, int device, std::uint64_t limit, use by = use::of_program) noexcept;

    error allocate(std::uint64_t size, void *&address) noexcept { return allocate_for(nullptr, size, address); }
    error allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept;
    error free(void *address) noexcept;
    error free_on(CUstream stream, void *address) noexcept;

    error trim(std::uint64_t keep) noexcept;
    error get_stats(ferry_pool_stats &stats) noexcept;
    error reset_stats() noexcept;

    // Must be called before the destructor. Returns FERRY_ERROR_IN_USE while the program holds blocks; after any other
    // failure the pool is closed all the same. Blocks that the instance has not freed end with the pool.
    error close() noexcept;

private:
    struct slab;
    struct wait;

    // Identifies a stream. After a stream is destroyed, another stream may get its handle but not its number. Older
    // drivers report no number, so an allocation waits even for a block that was freed on "the same stream". The wait
    // costs next to nothing if the stream is the same.
    struct stream_key {
        context_name context;
        const void *stream;
        unsigned long long number; // 0: not reported by the driver
        bool operator==(const stream_key &) const noexcept = default;
    };

    enum class block_state : std::uint8_t {
        ready,     // in the free list of its slab
        allocated, // held by the program
        leaving,   // being freed on a stream; allocated again if that fails
        waiting,   // for the event of `behind`
    };
    struct block {
        slab *home;
        block *next_ready;
        wait *behind; // work that may still use the block; also set on a block that take_behind allocated
        block_state state;
    };

    // One allocation. The records of its blocks follow in memory.
    struct slab {
        std::byte *base;
        std::uint64_t size;
        context_name made_in;
        int block_class;
        std::uint32_t count, ready_count;
        block *first_ready;
        slab *previous, *next;         // in the list of slabs of its class with ready blocks
        std::uint64_t context_changes; // device_contexts::changes() before the allocation
        bool is_set_aside;             // the contexts have changed since: its ready blocks are not handed out
        block *blocks() noexcept { return reinterpret_cast<block *>(this + 1); }
    };
    struct slab_place { // sorted by address
        std::uintptr_t base;
        slab *there;
    };

    struct wait {
        CUevent event;
        stream_key on; // of the last record; its context owns the event
        block *held;
        wait *previous, *next; // in a queue or among the spare waits
        std::uint64_t began;   // sequence number from before the last record
        std::uint64_t number;  // sequence number from after the last record; the order of the frees
        bool is_asked;         // by a thread without the mutex: the wait must stay where it is
    };
    struct stream_queue {
        stream_key on;
        chain<wait> waits;
        stream_queue *previous, *next;
    };
    struct class_state {
        chain<slab> available;
        chain<stream_queue> queues; // none of them is empty
        std::uint64_t held = 0;     // bytes of its slabs that are not set aside
    };
    struct context_events {
        context_name context;
        chain<wait> spare;
    };
    using lock = std::unique_lock<std::mutex>;

    // Allocate and release the memory of slabs.
    error take_memory(std::uint64_t size, slab &made) noexcept;
    error give_memory(const slab &gone) noexcept;
    error enter_own_context(context_scope &scope, CUcontext &context) noexcept;

    struct stream_use {
        CUstream stream;
        stream_key key;
    };
    // Makes the right context current for a default stream. Refuses a stream that is being captured.
    error enter_stream(CUstream stream, context_scope &scope, stream_use &use) noexcept;

    error allocate_for(const stream_use *use, std::uint64_t size, void *&address) noexcept; // null: for the host

    block *find_allocated(const void *address) noexcept;
    static wait *first_unasked(const stream_queue &queue) noexcept;
    static std::size_t count_unasked(const stream_queue &queue) noexcept; // at most max_looked_at
    static wait *unasked_at(const stream_queue &queue, std::size_t index) noexcept;
    static stream_queue *find_queue(const class_state &of, const stream_key &on) noexcept;
    context_events *find_events(const context_name &context) noexcept;

    bool is_outdated(const slab &one) const noexcept {
        return use_ == use::of_instance && one.context_changes != contexts_.changes();
    }
    void leave_available(slab &one) noexcept;
    block *take_ready(int block_class) noexcept;
    block *take_from(slab &home) noexcept;
    void make_ready(block &one) noexcept;
    void *hand_out(block &one) noexcept;

    void enqueue(block &one, wait &behind) noexcept;
    void dequeue(wait &done) noexcept;
    void keep_spare(wait &done) noexcept;
    void forget_events(const context_name &dead) noexcept;
    void drop(wait &dead) noexcept;
    // Calls `question` with the event, without the mutex. An event that has ended with its context crashes drivers
    // (CUDA 13.0): for such an event the call is skipped and the status is that of an invalid handle.
    template <class Question> std::int32_t ask_driver(wait &about, lock &held, const Question &question) noexcept;
    // Takes a spare wait with an event of `context`, else makes a new one.
    error take_wait(const context_name &context, lock &held, wait *&taken, bool &is_new) noexcept;
    error make_event(CUcontext context, CUevent &event) noexcept;
    error record(block &leaving, const stream_use &use, lock &held) noexcept;

    // Queries events of one stream, the streams taking turns, and returns a block whose work is complete. Begins with
    // the latest of up to max_looked_at events, because a completed event proves the earlier ones. After each miss it
    // halves the distance to the oldest event. Other blocks found complete become ready. Returns null if no block is
    // complete. Then one turn is used up, or all turns if there is no event to query.
    block *ask(class_state &of, unsigned &turns, lock &held) noexcept;
    void release_before(const wait &done, stream_queue &queue) noexcept;
    static unsigned count_queues(const class_state &of) noexcept;
    // Makes all completed blocks ready.
    void collect(lock &held) noexcept;
    // Finds a block that needs no wait: a completed one, else one of a new slab.
    error ask_or_grow(int block_class, lock &held, block *&found) noexcept;
    // Makes `stream` wait for `chosen` and takes the block of `chosen`.
    error take_behind(wait &chosen, CUstream stream, lock &held, block *&found) noexcept;
    static wait *oldest(const class_state &of) noexcept;

    error grow(int block_class, lock &held, block *&found) noexcept;
    void insert(slab &made) noexcept;
    std::uint64_t room() const noexcept;
    std::uint64_t ready_bytes() const noexcept;
    // Releases slabs in which every block is ready, until `bytes` are released or no such slab is left.
    error release(std::uint64_t bytes, lock &held) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    pinned_memory &pinned_;
    const allocator &memory_;
    const host_request request_;
    const int device_;
    const std::uint64_t limit_;
    const use use_;

    std::mutex mutex_;
    class_state classes_[block_class_count];
    growing<slab_place> slabs_;
    growing<context_events> events_;
    chain<stream_queue> spare_queues_; // there are as many queues, spare and in use, as waits
    std::size_t unlisted_slabs_ = 0;   // being allocated or released
    std::size_t allocated_count_ = 0;
    std::uint64_t next_number_ = 0;
    std::uint64_t growing_ = 0; // bytes being allocated
    std::uint64_t reserved_ = 0, reserved_high_ = 0, used_ = 0, used_high_ = 0;
};

} // namespace ferry
