// Pinned host memory in blocks that come and go.
//
// Blocks of one class are cut from slabs of their own. A block that is freed on a stream waits for an event that was
// recorded there; the blocks of a class wait in one queue for each stream, in the order of their frees. Nobody is told
// when a stream has passed: an allocation that finds no ready block asks.
//
// The mutex is never held over a call of the driver: those may wait for room in a hardware queue, which may wait for a
// host function of the program's, which may free a block.
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
    // Whose the blocks are: a program knows which context they end with, the instance hands none out from before the
    // contexts in use changed.
    enum class use { of_program, of_instance };

    // Slabs are allocated as `request` says, in the context in use for `device`. A limit of 0 is none.
    pinned_pool(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const allocator &memory,
                const host_request &request, int device, std::uint64_t limit, use by = use::of_program) noexcept;

    failure allocate(std::uint64_t size, void *&address) noexcept { return allocate_for(nullptr, size, address); }
    failure allocate_on(CUstream stream, std::uint64_t size, void *&address) noexcept;
    failure free(void *address) noexcept;
    failure free_on(CUstream stream, void *address) noexcept;

    failure trim(std::uint64_t keep) noexcept;
    failure get_stats(ferry_pool_stats &stats) noexcept;
    failure reset_stats() noexcept;

    // Before the destructor. FERRY_ERROR_IN_USE while blocks are the program's; all else that fails is no reason to stay.
    // What the instance has not freed is lost.
    failure close() noexcept;

private:
    struct slab;
    struct wait;

    // A stream. Once it is destroyed another may have its handle, but not its number, which older drivers do not tell: so
    // what was freed on "the same stream" is waited for all the same, which costs next to nothing where it is the same.
    struct stream_key {
        context_name context;
        const void *stream;
        unsigned long long number; // 0: not told
        bool operator==(const stream_key &) const noexcept = default;
    };

    enum class block_state : std::uint8_t {
        ready,     // in its slab's list
        allocated, // the program's
        leaving,   // being freed on a stream; the program's, should that fail
        waiting,   // for `behind`
    };
    struct block {
        slab *home;
        block *next_ready;
        wait *behind; // the work that may still use it; of an allocated block, too, if that was allocated on a stream
        block_state state;
    };

    // One allocation, with its blocks behind it.
    struct slab {
        std::byte *base;
        std::uint64_t size;
        context_name made_in;
        int block_class;
        std::uint32_t count, ready_count;
        block *first_ready;
        slab *previous, *next;         // with ready blocks, of its class
        std::uint64_t context_changes; // before it was allocated
        bool is_set_aside;             // from before they changed: its blocks stay ready
        block *blocks() noexcept { return reinterpret_cast<block *>(this + 1); }
    };
    struct slab_place { // sorted by address
        std::uintptr_t base;
        slab *there;
    };

    struct wait {
        CUevent event;
        stream_key on; // where it was recorded last; the context is the event's
        block *held;
        wait *previous, *next; // in a queue or among the spare ones
        std::uint64_t began;   // when it was about to be recorded,
        std::uint64_t number;  // and when it had been: in the order of frees
        bool is_asked;         // by a thread that does not hold the mutex: stays where it is
    };
    struct stream_queue {
        stream_key on;
        chain<wait> waits;
        stream_queue *previous, *next;
    };
    struct class_state {
        chain<slab> available;
        chain<stream_queue> queues; // none empty
        std::uint64_t held = 0;     // bytes of its slabs
    };
    struct context_events {
        context_name context;
        chain<wait> spare;
    };
    using lock = std::unique_lock<std::mutex>;

    // Where the memory of slabs comes from.
    failure take_memory(std::uint64_t size, slab &made) noexcept;
    failure give_memory(const slab &gone) noexcept;
    failure enter_own_context(context_scope &scope, CUcontext &context) noexcept;

    struct stream_use {
        CUstream stream;
        stream_key key;
    };
    // Makes the stream's context current where the stream needs that. Refuses a capture.
    failure enter_stream(CUstream stream, context_scope &scope, stream_use &use) noexcept;

    failure allocate_for(const stream_use *use, std::uint64_t size, void *&address) noexcept; // null: for the host

    block *find_allocated(const void *address) noexcept;
    static wait *first_unasked(const stream_queue &queue) noexcept;
    static std::size_t count_unasked(const stream_queue &queue) noexcept; // no further than is asked
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
    // Calls `question` for the event, without the mutex; not where it has ended with its context, of which drivers crash
    // (CUDA 13.0): it is an invalid handle then.
    template <class Question> std::int32_t ask_driver(wait &about, lock &held, const Question &question) noexcept;
    // A spare wait with an event of `context`, else a new one.
    failure take_wait(const context_name &context, lock &held, wait *&taken, bool &is_new) noexcept;
    failure make_event(CUcontext context, CUevent &event) noexcept;
    failure record(block &leaving, const stream_use &use, lock &held) noexcept;

    // Asks the next stream, as they take turns, for a block that is done: the last one first, for one that is done tells
    // of those before it, then halfway to the one that has waited longest. What else is found done becomes ready. Null if
    // nothing is: then one turn is used up, or all if there is nobody to ask.
    block *ask(class_state &of, unsigned &turns, lock &held) noexcept;
    void release_before(const wait &done, stream_queue &queue) noexcept;
    static unsigned count_queues(const class_state &of) noexcept;
    // Asks until all that is done is ready.
    void collect(lock &held) noexcept;
    // A block without any wait: one that is done, else out of a new slab.
    failure ask_or_grow(int block_class, lock &held, block *&found) noexcept;
    // A waiting block, once `stream` has been made to wait for it.
    failure take_behind(wait &chosen, CUstream stream, lock &held, block *&found) noexcept;
    static wait *oldest(const class_state &of) noexcept;

    failure grow(int block_class, lock &held, block *&found) noexcept;
    void insert(slab &made) noexcept;
    std::uint64_t room() const noexcept;
    std::uint64_t ready_bytes() const noexcept;
    // Gives slabs back in which every block is ready, until they are `bytes` or none is left.
    failure give_back(std::uint64_t bytes, lock &held) noexcept;

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
    chain<stream_queue> spare_queues_; // with those in use as many as there are waits
    std::size_t unlisted_slabs_ = 0;   // on their way in or out
    std::size_t allocated_count_ = 0;
    std::uint64_t next_number_ = 0;
    std::uint64_t growing_ = 0; // bytes on their way in
    std::uint64_t reserved_ = 0, reserved_high_ = 0, used_ = 0, used_high_ = 0;
};

} // namespace ferry
