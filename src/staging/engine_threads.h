// The threads of a staging engine: workers, spares, the watchdog, and the program's threads that replace workers.
#pragma once

#include <atomic>
#include <mutex>

#include "base/budget.h"
#include "staging/scheduler.h"
#include "system/threads.h"

namespace ferry {

struct staged_options;

class engine_threads {
public:
    // `query_contexts(user)` queries whether contexts have died. It runs on a separate thread, because a driver call
    // may wait for a lock of the driver.
    engine_threads(staging_scheduler &scheduler, const staged_options &options, const allocator &memory,
                   void (*query_contexts)(void *user), void *user) noexcept
        : scheduler_(scheduler), options_(options), memory_(memory), query_contexts_(query_contexts), user_(user) {}
    engine_threads(const engine_threads &) = delete;
    engine_threads &operator=(const engine_threads &) = delete;

    // Must be called first, once the options are final.
    void set_up() noexcept;

    // The maximum number of workers, apart from spares.
    std::uint32_t max_workers() const noexcept { return max_workers_; }
    std::uint32_t limit(std::uint32_t wanted) noexcept; // returns at most max_workers()
    // All threads: workers, the watchdog and temporary threads.
    std::uint32_t count_all() const noexcept {
        return count_ + has_watchdog_ + static_cast<std::uint32_t>(temporary.used());
    }
    // Counts spares, queries and the threads that add slots. A thread counts until its work is complete.
    budget temporary;

    // The caller holds the engine's lock for these functions.
    bool has_enough(std::uint32_t wanted) const noexcept; // false after a request for fewer threads
    void start(std::uint32_t wanted, int home, const thread_traits &traits) noexcept; // fewer if the system refuses
    bool have_home(int node) const noexcept;
    void start_watchdog() noexcept;

    std::uint32_t count() const noexcept { return count_; }
    // Whether any thread can serve: the program's threads can if they do the work.
    bool can_serve() const noexcept;

    // Requests threads of the program for a copy. If no thread will serve the copy, waits until one does, unless
    // `caller_helps`.
    void request_visitors(std::uint32_t count, bool caller_helps) noexcept;

    // From now on, the closing thread serves all remaining copies.
    void drain() noexcept { is_draining_ = true; }
    // Waits for all threads. No copy may be left.
    void close() noexcept;
    bool is_closing() const noexcept { return is_closing_; }
    // False in a forked child whose parent had threads.
    bool have_ended() const noexcept { return count_ == 0 && !watchdog_.is_started(); }

private:
    struct resident_thread {
        worker_thread thread;
        engine_threads *all = nullptr;
        int home = any_node;
    };
    // A worker in addition to the residents, or instead of a stuck resident.
    struct spare_thread {
        worker_thread thread;
        engine_threads *all = nullptr;
        std::atomic<bool> has_begun = false, has_left = false;
    };
    // The result of a request for visitors, which are threads of the program.
    enum class visitors {
        granted,
        refused,
        ran_at_once, // inside `submit`, where they must not serve. Other requested visitors may have run there too
    };
    static constexpr std::uint64_t between_tries_ns = 1'000'000; // between attempts to get a thread

    bool start_resident(int home, const thread_traits &traits) noexcept;
    static void work(void *resident) noexcept;

    static void run_watchdog(void *all) noexcept;
    void start_to_query() noexcept;
    void start_spare() noexcept;
    static void run_spare(void *spare) noexcept;
    void join_spares_that_left() noexcept;
    void evacuate_slots() noexcept;

    visitors submit(std::uint32_t count) noexcept;
    void replace_visitor() noexcept;
    bool start_substitute() noexcept;
    static void visit(void *all) noexcept;

    staging_scheduler &scheduler_;
    const staged_options &options_;
    const allocator &memory_;
    void (*const query_contexts_)(void *user);
    void *const user_;

    // ---- From the first copy of a device until close()
    std::mutex
        substitute_mutex_; // guards residents_ if the program's threads do the work; unlocked during driver calls
    resident_thread residents_[max_threads];
    std::atomic<std::uint32_t> count_ = 0; // of residents
    std::uint32_t wanted_ = 0;             // when the residents were started
    std::uint32_t max_workers_ = max_threads;
    thread_traits watchdog_traits_;
    worker_thread watchdog_; // starts and joins the spares and querying_
    std::atomic<bool> has_watchdog_ = false;

    // ---- While copies are stuck
    worker_thread querying_; // queries whether contexts have died
    std::atomic<bool> has_queried_ = false;
    spare_thread spares_[max_threads];
    std::uint32_t spare_count_ = 0;

    // ---- While a call of `submit` is in progress, and until the program's thread returns
    std::atomic<std::uint32_t> visitors_ = 0; // requested threads that have not returned yet

    std::atomic<bool> is_draining_ = false; // the closing thread serves all remaining copies
    std::atomic<bool> is_closing_ = false;
};

} // namespace ferry
