// Copies between pageable memory and devices that neither block the caller nor hold a stream by anything but a kernel: it
// sits on the stream like any other work, and meets threads that copy between the program's pages and pinned slots. Once
// enqueued a copy needs no call of the driver, so it cannot be stopped by what the driver waits for.
#pragma once

#include "base/threads.h"
#include "device/contexts.h"
#include "device/kernels.h"
#include "device/tracked_contexts.h"
#include "memory/pinned.h"
#include "staging/graph_launches.h"
#include "staging/scheduler.h"

namespace ferry {

// How threads learn that a kernel is about to run, or runs.
enum class staged_wake : std::uint8_t {
    by_looking,       // they look from time to time while any is enqueued
    by_host_function, // the driver calls a function before it, which waits for other host functions of the program
};

struct staged_options {
    std::uint64_t slot_size = std::uint64_t{512} << 10; // bytes: a multiple of 4096
    std::uint32_t slots = 32;                           // of each device
    std::uint32_t first_slots = 4;                      // of these, before the first copy
    // Bytes: longer copies are several launches, between which some 0.2 ms of the bus are lost.
    std::uint64_t largest_launch = std::uint64_t{1} << 30;
    std::uint32_t threads = 0; // 0: half the processors, 8 at most
    thread_traits traits = {.name = "ferry-staging"};
    staged_wake wake = staged_wake::by_looking; // of those that are captured always by a host function
    // Another's threads instead of the engine's own: each call asks for one, to call work(argument) soon, also while all
    // that the program does is wait for the stream. 0: it will not. It comes from a host function, and must not call the
    // driver.
    std::int32_t (*submit)(void *user, void (*work)(void *argument), void *argument) = nullptr;
    void *submit_user = nullptr;
};

struct staged_copy {
    staged_box box;
    int device = 0;              // whose ring is used
    CUcontext context = nullptr; // of the stream
    std::uint32_t blocks = 0;    // at most; 0: as many as pay
    bool is_captured = false;    // the stream is being captured
    bool caller_helps = false;   // help() is called at once, so that no other thread is needed
};

class staging_engine {
public:
    staging_engine(const driver_table &cu, device_contexts &contexts, kernel_set &kernels, pinned_memory &pinned,
                   const device_facts *devices, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), kernels_(kernels), pinned_(pinned), devices_(devices), memory_(memory),
          tracked_(cu, memory), board_(), graphs_(cu, board_), pages_(memory) {}
    // After close, but in the child of a fork, which has no driver and no threads: nothing is given back there.
    ~staging_engine();
    staging_engine(const staging_engine &) = delete;
    staging_engine &operator=(const staging_engine &) = delete;

    // Before anything else.
    void set_up(const staged_options &options) noexcept;

    // What a device needs for its first copy: threads, records, the first slots; others follow on their own. It may wait for
    // the driver; without this the first copy does.
    error prepare(int device) noexcept { return provide(device, true); }

    // With the stream's context current, in which the kernels are loaded. The memory must stay until the stream has passed
    // the copy, and `watch` until no launch is left. Where a launch fails, those before it are on their way all the same.
    error enqueue(const staged_copy &copy, CUstream stream, staged_progress *watch) noexcept;

    // The calling thread helps until the copy is done, or its context dies. It waits for no lock of the driver's.
    error help(staged_progress &watch) noexcept;

    // Frees pinned memory that no copy uses; the first slots stay while a copy may come. The first failure; what the driver
    // does not take back stays in use.
    error trim() noexcept;
    // Some context may have died: asks each that anything is enqueued in, and gives up what is enqueued in dead ones.
    void lose_dead() noexcept;
    // The context was destroyed.
    void forget(CUcontext context) noexcept;

    // Waits for all that is enqueued, unless its context is dead. Nothing else may be called any more, and no graph launched
    // that has captured a copy; it may be destroyed.
    void close() noexcept;

    std::uint32_t wanted_threads() const noexcept { return options_.threads; } // once it is set up
    std::uint32_t thread_count() const noexcept { return thread_count_; }
    staging_scheduler::load in_flight() noexcept { return board_.in_flight(); }
    std::uint64_t staging_bytes() const noexcept {
        return ring_bytes_.load(std::memory_order_relaxed);
    } // of all devices

private:
    struct device_ring {
        staging_buffers ring;
        worker_thread adding; // the second lot
        staging_engine *engine = nullptr;
        int device = 0;
        std::atomic<bool> is_adding = false; // until then what is not guarded is the thread's
        std::atomic<bool> wants_more = false;
    };
    struct job_page {
        staged_memory records;
        staging_launch *launches;
        std::uint32_t count;
    };

    // Runs copies besides the residents, or in their place.
    struct spare_thread {
        worker_thread thread;
        staging_engine *engine = nullptr;
        std::atomic<bool> has_begun = false, has_left = false;
    };

    error start_threads() noexcept;
    void start_spare() noexcept;
    void join_spares_that_left() noexcept;
    void evacuate_slots() noexcept;
    error make_ring(int device) noexcept;
    error add_lot(device_ring &of, bool first) noexcept;
    void add_other_slots(device_ring &of) noexcept;
    error add_jobs(int device) noexcept;
    error provide(int device, bool needs_threads) noexcept;
    error enter_device(int device, context_scope &scope) noexcept;
    bool has_threads() const noexcept { return options_.submit || thread_count_ != 0; }
    error hold_ring(const staged_copy &copy, device_ring *&of) noexcept;
    error take_jobs(const staged_copy &copy, std::uint64_t count, staging_launch *&taken) noexcept;
    // By a host function before it runs; otherwise by the caller, at once.
    bool is_announced(const staged_copy &copy) const noexcept {
        return options_.submit || copy.is_captured || options_.wake == staged_wake::by_host_function;
    }
    void share_out(const staged_copy &copy, const tracked_context &context, const staging &cut, device_ring &of,
                   std::uint64_t per_launch, staged_progress *watch, staging_launch *taken) const noexcept;
    error launch_kernel(const staged_copy &copy, staging_launch &launch, CUstream stream,
                        bool &is_announced_there) noexcept;
    error launch_all(const staged_copy &copy, staging_launch &first, CUstream stream) noexcept;
    void announce(staging_launch &launch) noexcept;
    bool ask_for_visitors(std::uint32_t count) noexcept;
    bool start_substitute() noexcept;
    error free_lot(device_ring &of, bool first) noexcept;
    static void work(void *engine) noexcept;
    static void visit(void *engine) noexcept;
    static void stand_in(void *spare) noexcept;
    static void watch(void *engine) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    kernel_set &kernels_;
    pinned_memory &pinned_;
    const device_facts *devices_;
    const allocator &memory_;
    staged_options options_;
    tracked_contexts tracked_;
    union {
        staging_scheduler board_; // not ended in the child of a fork
    };
    graph_launches graphs_;

    std::mutex mutex_; // of what is set up; never wanted by a thread that runs copies
    std::atomic<device_ring *> rings_[device_contexts::max_devices] = {};
    growing<job_page> pages_;
    std::mutex substitute_mutex_; // of threads_ where the program's threads do the work; no driver call is made with it
    worker_thread threads_[max_threads];
    std::atomic<std::uint32_t> thread_count_ = 0;
    thread_traits watchdog_traits_;
    worker_thread watchdog_; // starts and joins the spares
    spare_thread spares_[max_threads];
    std::uint32_t spare_count_ = 0;
    std::atomic<std::uint64_t> ring_bytes_ = 0;
    std::atomic<bool> is_draining_ = false; // the closing thread serves all that is left
    std::atomic<bool> is_closing_ = false;
    std::atomic<std::uint32_t> visitors_ = 0; // asked for, and not gone
};

} // namespace ferry
