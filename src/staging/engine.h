// The staging engine: copies between pageable memory and devices without blocking the caller. On the stream, a copy
// consists only of kernel launches, which are ordered like any other work. The kernels communicate with workers that
// copy between the program's pages and pinned slots. Once enqueued, a copy needs no driver call, so no driver lock or
// blocked stream can prevent it from completing. One engine serves all devices of an instance: each device has its own
// slots, and all devices share the threads.
#pragma once

#include "device/contexts.h"
#include "device/kernels.h"
#include "device/tracked_contexts.h"
#include "memory/pinned.h"
#include "staging/engine_threads.h"
#include "staging/graph_launches.h"
#include "staging/scheduler.h"
#include "staging/side_streams.h"
#include "system/threads.h"

namespace ferry {

struct staged_options {
    std::uint64_t slot_size = std::uint64_t{512} << 10; // bytes: a multiple of 4096
    std::uint32_t slots = 32;                           // per device
    std::uint32_t first_slots = 4;                      // size of the first lot, allocated before the first copy
    // Bytes. Longer copies need several launches, and between two launches the bus is idle for about 0.2 ms.
    std::uint64_t max_launch = std::uint64_t{1} << 30;
    std::uint32_t threads = 0;     // for all devices; 0: default_threads()
    std::uint32_t max_threads = 0; // of all kinds that run at the same time, at least 3; 0: no limit
    std::uint32_t processors = 1;  // number of processors available to the program, for default_threads()
    thread_traits traits = {.name = "ferry-staging", .is_prompt = true};
    // Returns the processors of a NUMA node, on which the default threads of that node's devices run. Null: threads run
    // on all processors of `traits`.
    processor_set (*processors_of_node)(int node) noexcept = nullptr;
    // Uses the program's threads instead of the engine's own. Each call requests one thread that calls work(argument)
    // soon, even while the program only waits for the stream. Returns 0 if no thread will do so. The engine calls
    // `submit` from a host function, so `submit` must not call the driver. If `submit` itself calls work(argument),
    // that call does nothing.
    std::int32_t (*submit)(void *user, void (*work)(void *argument), void *argument) = nullptr;
    void *submit_user = nullptr;
};

// Enough threads to saturate the bus of an H200 (51 of 55 GB/s in each direction, with a staging buffer of 16 MiB). A
// system call that reads cached bytes takes longer than a copy (8 threads 43 to 49 GB/s, 12 threads 51).
constexpr std::uint32_t threads_of_device = 8, threads_of_device_for_files = 12;
// The default number of threads: so many for each device that has staged copies, but at most half the processors, or
// three quarters for files, and at least two. One thread would copy no faster than the driver's call, which uses the
// caller's thread.
constexpr std::uint32_t default_threads(std::uint32_t processors, std::uint32_t devices,
                                        bool are_for_files = false) noexcept {
    constexpr std::uint32_t min_threads = 2;
    const std::uint32_t most = are_for_files ? processors * 3 / 4 : processors / 2;
    const std::uint32_t each = are_for_files ? threads_of_device_for_files : threads_of_device;
    return std::clamp(std::min(most, each * devices), min_threads, max_threads);
}

// Many pieces between host memory and one device, in one direction. enqueue() copies this list before it returns.
struct staged_pieces {
    const staged_piece *begin = nullptr;
    std::size_t count = 0;
    std::uint64_t bytes = 0; // of all pieces

    explicit operator bool() const noexcept { return count != 0; }
};

// A device that copies chunks over its own link, with its own blocks. It accesses the end on the copy's device as a
// peer.
struct staged_helper {
    CUcontext context;
    CUstream stream; // already waits for the work before the copy
    std::uint64_t device_address;
    int device;
};

constexpr std::uint32_t max_staged_links = 1 + max_staged_helpers;

struct staged_copy {
    staged_box box;              // for pieces, only its direction and its file are used
    staged_pieces pieces = {};   // replaces the box if there are any pieces
    int device = 0;              // the device whose staging buffer is used
    CUcontext context = nullptr; // the stream's context
    std::uint32_t blocks = 0;    // maximum; 0: the fastest number
    bool is_captured = false;    // the stream is being captured
    bool caller_helps = false;   // the caller calls help() immediately, so no other worker is needed
    bool is_stream_idle = false; // the stream's earlier work is known to be complete
    // If other kernels occupy all SMs for longer than this, enqueue() returns FERRY_ERROR_LIMIT and enqueues nothing.
    // 0: the kernel may start at any time.
    std::uint16_t start_patience_us = 0;
    static constexpr std::uint16_t least_patience_us = 100; // an idle H200 starts a kernel within 10 us
    // Otherwise, enqueue() returns FERRY_ERROR_WOULD_BLOCK if buffers or threads are missing, and FERRY_ERROR_LIMIT if all
    // records are in use.
    bool may_wait = true;
    const shape_end *device_end = nullptr;  // for a copy-engine launch: see staged_box
    const staged_helper *helpers = nullptr; // only for a box of linear memory with a kernel
    std::uint32_t helper_count = 0;         // at most max_staged_helpers
    // For a broadcast: a contiguous copy to several devices, whose addresses are equal modulo 16. The first targets are
    // one target on the copy's device and one on each helper. Each of these devices can access all targets. If a
    // context dies, the copy ends, and bytes may be missing on any device.
    const std::uint64_t *targets = nullptr;
    std::uint32_t target_count = 0; // at most gpu::max_copies_of_ring; 0: not a broadcast
    std::uint64_t index = 0;        // of a copy with a file in its batch

    std::uint32_t links() const noexcept { return 1 + helper_count; }
};

class staging_engine {
public:
    staging_engine(const driver_table &cu, device_contexts &contexts, kernel_set &kernels, pinned_memory &pinned,
                   const device_facts *devices, const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), kernels_(kernels), pinned_(pinned), devices_(devices), memory_(memory),
          tracked_(cu, memory), scheduler_(), graphs_(cu, scheduler_), sides_(cu), pages_(memory) {}
    // close() must be called first, except in a forked child, which has no driver and no threads. There, no pinned
    // memory is released.
    ~staging_engine();
    staging_engine(const staging_engine &) = delete;
    staging_engine &operator=(const staging_engine &) = delete;

    // Whether a staged copy can be enqueued without allocating records for it.
    bool has_launches() noexcept { return scheduler_.has_unused(); }

    // Must be called first.
    void set_up(const staged_options &options) noexcept;

    // Provides what a device needs for its first copy: threads, records and the first lot of slots. The remaining lots
    // are allocated in the background. May wait for the driver. Without this call, the first copy does the same.
    error prepare(int device) noexcept { return provide(device, true); }
    // Same as prepare(), but also allocates as many slots as copies over that many links keep in use. Otherwise the
    // first such copy requests these slots and runs without them.
    error widen(int device, std::uint32_t links) noexcept;
    // Completes prepare() for a program whose first copies must not wait for the driver's lock: waits for the remaining
    // lots, and creates the objects that the current context still lacks.
    void finish_preparing(int device, CUcontext current) noexcept;

    // The stream's context must be current, and the kernels must be loaded in it. The memory must stay valid until the
    // copy has completed on the stream, and `progress` until no launch is left. If a launch fails, the launches before
    // it still run.
    error enqueue(const staged_copy &copy, CUstream stream, staged_progress *progress) noexcept;

    // Works on the copy, on the calling thread, until the copy is complete or its context dies. Does not wait for
    // driver locks.
    error help(staged_progress &progress) noexcept;
    // Same, for at most `time_ns` and the rest of a chunk. Does not look for dead contexts.
    void help_for(staged_progress &progress, std::uint64_t time_ns) noexcept;

    // Frees pinned memory that no copy uses. The first lot stays allocated while a copy may start. Returns the first
    // error. Memory that the driver fails to free stays in use.
    error trim() noexcept;
    // Must be called if a context may have died: queries each context that has launches, and abandons the launches of
    // dead contexts.
    void lose_dead() noexcept;
    // Abandons the launches of a context that was destroyed.
    void forget(CUcontext context) noexcept;

    // Waits for all enqueued copies, except copies whose context is dead. No other function may be called afterwards.
    // Graphs that have captured a copy must no longer be launched, but may be destroyed.
    void close() noexcept;

    // The maximum number of threads that copies of one device keep busy. Valid after set_up().
    std::uint32_t wanted_threads(bool for_files = false) const noexcept {
        return std::min(options_.threads ? options_.threads : default_threads(options_.processors, 1, for_files),
                        threads_.max_workers());
    }
    std::uint32_t thread_count() const noexcept { return threads_.count(); } // of workers
    const engine_threads &threads() const noexcept { return threads_; }
    bool has_own_threads() const noexcept { return !options_.submit; }
    std::uint64_t slot_size() const noexcept { return options_.slot_size; } // smaller if less memory can be pinned
    staging_scheduler::load in_flight() noexcept { return scheduler_.in_flight(); }
    bool may_write(const address_span &range) noexcept { return scheduler_.may_write(range); }
    // Whether a kernel would start immediately in the current `context` of the device. prepare() must have been called
    // for the device.
    bool has_room_on(int device, CUcontext context) noexcept;

    // The most recent delays of copies: of the threads, and of kernels at the head of their streams.
    struct delays {
        std::uint64_t threads_ns = 0, start_ns = 0;
        std::uint64_t idle_ns = 0; // since the last copy ended, or note_use()
    };
    delays delays_on(int device) noexcept;
    // After a pause, wakes the threads for a copy that will probably be staged, while the caller plans it. The plan
    // then takes 50 us, and a thread takes as long to wake (H200). Otherwise the threads are woken behind the test
    // kernel.
    void wake_threads(int device) noexcept;
    // Must be called if a copy uses another route because of the threads' delay. Measures that delay again from time to
    // time.
    void measure_thread_delay() noexcept;
    // Must be called after a copy that would have been staged if the threads had not been asleep. Another copy that
    // follows immediately is staged.
    void note_use() noexcept { scheduler_.note_use(); }
    // For all devices.
    std::uint64_t failed_files() const noexcept;
    std::uint64_t staging_bytes() const noexcept { return staging_bytes_.load(std::memory_order_relaxed); }

private:
    struct device_buffers {
        staging_buffers buffers;
        worker_thread adding;                 // adds the remaining lots
        std::atomic<std::uint32_t> links = 1; // number of links that slots are provided for
        staging_engine *engine = nullptr;
        int device = 0;
        processor_set processors;            // of the threads that were started for this device and have a home
        thread_traits traits;                // of the same threads
        std::atomic<bool> is_adding = false; // while true, the unguarded members of `buffers` belong to that thread
        std::atomic<bool> wants_more = false;
    };
    struct launch_page {
        staged_memory records;
        staging_launch *launches;
        std::uint32_t count;
    };

    // ---- Memory (engine_buffers.cpp)
    error enter_device(int device, context_scope &scope) noexcept;
    error provide(int device, bool needs_threads) noexcept;
    error make_buffers(int device) noexcept;
    struct slot_range {
        std::uint32_t begin, count;
    };
    slot_range slots_of_lot(const staging_buffers &buffers, std::uint32_t lot) const noexcept;
    error add_lot(device_buffers &of, std::uint32_t lot) noexcept;
    static error add_other_lots(device_buffers &of) noexcept;
    void add_other_slots(device_buffers &of) noexcept;
    error add_launches(int device) noexcept;
    error free_lot(device_buffers &of, std::uint32_t lot) noexcept;
    std::uint32_t threads_for_all_devices() const noexcept;
    bool find_home(device_buffers &of, std::uint32_t threads) const noexcept;
    error start_threads(device_buffers &of) noexcept;

    // ---- Copies (engine_enqueue.cpp)
    // Returns whether a host function announces each run immediately before the kernel. A host function runs once for
    // each launch of a graph, and can request threads from the program. Otherwise enqueue() announces the run. A host
    // function waits for other host functions of the program, so it is used only if necessary.
    bool is_announced_by_function(const staged_copy &copy) const noexcept {
        return options_.submit || copy.is_captured;
    }
    error track_helpers(const staged_copy &copy, const tracked_context *(&found)[max_staged_helpers]) noexcept;
    error retain_buffers(const staged_copy &copy, device_buffers *&of) noexcept;
    error take_launches(const staged_copy &copy, std::uint64_t count, staging_launch *&taken) noexcept;
    bool has_room_for_kernels(const staged_copy &copy, const tracked_context &context, device_buffers &of) noexcept;
    launch_work work_of_all(const staged_copy &copy, const tracked_context &context, device_buffers &of,
                            staged_progress *progress) const noexcept;
    // Distribute the copy over its launches. `per_launch`: chunks of a box, or bytes of pieces.
    static void set_work(staging_launch &launch, const launch_work &of_all, const staging &cut, std::uint64_t first,
                         std::uint64_t end) noexcept;
    static void share_box(const staging &cut, launch_work work, std::uint64_t per_launch,
                          staging_launch &first) noexcept;
    static error share_pieces(const staged_copy &copy, launch_work work, std::uint64_t per_launch,
                              staging_launch &first) noexcept;
    error prepare_for_copies(staging_launch &launch) noexcept;
    error enqueue_copies(const staged_copy &copy, staging_launch &launch, CUstream stream) noexcept;
    error enqueue_wait(const staged_copy &copy, staging_launch &launch, CUstream stream) noexcept;
    error launch_all(const staged_copy &copy, staging_launch &first, CUstream stream) noexcept;
    void launch_helpers(const staged_copy &copy, staging_launch &launch, gpu::ring_parameters given) noexcept;
    error launch_kernel(const staged_copy &copy, staging_launch &launch, CUstream stream,
                        bool &is_announced_there) noexcept;
    void announce(staging_launch &launch) noexcept;

    const driver_table &cu_;
    device_contexts &contexts_;
    kernel_set &kernels_;
    pinned_memory &pinned_;
    const device_facts *devices_;
    const allocator &memory_;
    staged_options options_;
    tracked_contexts tracked_;
    union {
        staging_scheduler scheduler_; // not destroyed in a forked child
    };
    graph_launches graphs_;
    side_streams sides_;

    std::mutex mutex_; // guards the set-up; workers never wait for it
    std::atomic<device_buffers *> buffers_[device_contexts::max_devices] = {};
    growing<launch_page> pages_;
    std::atomic<std::uint64_t> staging_bytes_ = 0;
    std::atomic<bool> serves_files_ = false;             // since the first copy of a file
    std::atomic<std::uint64_t> next_measurement_ns_ = 0; // of the threads' delay
    engine_threads threads_{scheduler_, options_, memory_,
                            [](void *engine) { static_cast<staging_engine *>(engine)->lose_dead(); }, this};
};

} // namespace ferry
