#include "staging/engine_threads.h"

#include <new>

#include "staging/engine.h"
#include "system/sleep.h"

namespace ferry {

void engine_threads::set_up() noexcept {
    watchdog_traits_ = options_.traits;
    watchdog_traits_.name = "ferry-watchdog";
    if (options_.max_threads < 3) return; // no limit, or an instance without staging
    // The watchdog and one temporary thread leave the other threads to the workers. Threads that workers will never
    // need are temporary threads. The program's threads do not count, but one thread may replace them.
    const std::uint32_t others = options_.max_threads - 1;
    if (options_.submit) return temporary.set_limit(others - 1);
    const std::uint32_t most =
        options_.threads ? options_.threads : default_threads(options_.processors, ferry::max_threads, true);
    max_workers_ = std::min(most, others - 1);
    temporary.set_limit(others - max_workers_);
}

std::uint32_t engine_threads::limit(std::uint32_t wanted) noexcept {
    if (wanted > max_workers_) temporary.note_refusal(); // the budget counts the refusals of all threads
    return std::min(wanted, max_workers_);
}

bool engine_threads::has_enough(std::uint32_t wanted) const noexcept {
    return options_.submit || (count_ != 0 && wanted <= wanted_);
}

void engine_threads::start(std::uint32_t wanted, int home, const thread_traits &traits) noexcept {
    while (count_ < wanted && start_resident(home, traits)) {
    }
    wanted_ = wanted;
}

bool engine_threads::have_home(int node) const noexcept {
    if (!is_home(node)) return false;
    for (std::uint32_t i = 0; i < count_; ++i)
        if (residents_[i].home == node) return true;
    return false;
}

// If the watchdog does not start, a copy that is blocked in page faults may delay other copies.
void engine_threads::start_watchdog() noexcept {
    if (!watchdog_.is_started()) has_watchdog_ = watchdog_.start(run_watchdog, this, watchdog_traits_);
}

bool engine_threads::can_serve() const noexcept { return options_.submit || count_ != 0; }

void engine_threads::close() noexcept {
    is_closing_ = true;
    scheduler_.wake_all();
    watchdog_.join();
    querying_.join();
    {
        const std::lock_guard lock(substitute_mutex_);
        for (resident_thread &one : residents_)
            one.thread.join();
        for (spare_thread &one : spares_)
            one.thread.join();
        count_ = spare_count_ = 0;
    }
    while (visitors_ != 0)
        rest_for(20'000);
}

bool engine_threads::start_resident(int home, const thread_traits &traits) noexcept {
    resident_thread &next = residents_[count_];
    next.all = this;
    next.home = home;
    if (!next.thread.start(work, &next, traits)) return false;
    ++count_;
    return true;
}

void engine_threads::work(void *resident) noexcept {
    const auto &mine = *static_cast<const resident_thread *>(resident);
    engine_threads &self = *mine.all;
    self.scheduler_.serve_until(staging_scheduler::server::resident, mine.home,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
}

// ---- The watchdog and the spares

// The watchdog. Makes no driver call and accesses no program memory, so nothing can block it.
void engine_threads::run_watchdog(void *all) noexcept {
    auto &self = *static_cast<engine_threads *>(all);
    while (!self.is_closing_) {
        self.join_spares_that_left();
        // If the program's threads do the work, the program decides how many there are.
        const std::uint32_t enough = self.options_.submit ? 1 : self.count_.load();
        if (self.scheduler_.inspect(clock_ns(), enough)) self.start_spare();
        if (self.scheduler_.is_helper_late()) self.start_to_query();
        self.evacuate_slots();
        self.scheduler_.wait_to_inspect(self.spare_count_ != 0, self.is_closing_);
    }
}

// Queries on a separate thread whether contexts have died, because a driver call may wait for a lock of the driver.
void engine_threads::start_to_query() noexcept {
    if (querying_.is_started() && !has_queried_.load(std::memory_order_acquire)) return;
    querying_.join();
    if (!temporary.take(1)) return;
    has_queried_ = false;
    const auto query = [](void *all) {
        auto &self = *static_cast<engine_threads *>(all);
        self.query_contexts_(self.user_);
        self.temporary.give_back(1);
        self.has_queried_.store(true, std::memory_order_release);
    };
    if (!querying_.start(query, this, watchdog_traits_)) temporary.give_back(1);
}

void engine_threads::start_spare() noexcept {
    if (count_ + spare_count_ >= max_threads) return;
    spare_thread *unused = nullptr;
    for (spare_thread &one : spares_) {
        if (!one.thread.is_started())
            unused = &one;
        else if (!one.has_begun)
            return; // the system has not run the thread yet
    }
    if (!unused || !temporary.take(1)) return;
    unused->all = this;
    unused->has_begun = unused->has_left = false;
    const bool is_started = unused->thread.start(run_spare, unused, options_.traits);
    if (!is_started) temporary.give_back(1);
    spare_count_ += is_started;
}

void engine_threads::run_spare(void *spare) noexcept {
    auto &mine = *static_cast<spare_thread *>(spare);
    engine_threads &self = *mine.all;
    mine.has_begun = true;
    self.scheduler_.serve_until(staging_scheduler::server::spare, any_node,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
    self.temporary.give_back(1);
    mine.has_left.store(true, std::memory_order_release);
}

void engine_threads::join_spares_that_left() noexcept {
    for (spare_thread &one : spares_) {
        if (spare_count_ == 0) return;
        if (!one.thread.is_started() || !one.has_left.load(std::memory_order_acquire)) continue;
        one.thread.join();
        --spare_count_;
    }
}

// Empties slots that other copies wait for: moves the bytes that blocks have copied for stuck workers to ordinary
// memory.
void engine_threads::evacuate_slots() noexcept {
    while (const staging_buffers *const buffers = scheduler_.starved_buffers()) {
        const std::uint64_t room = buffers->slot_size + slot_margin;
        void *const place = memory_.allocate(sizeof(staged_parcel) + room, alignof(staged_parcel));
        if (!place) return;
        auto *const parcel = new (place) staged_parcel{.room = room};
        if (scheduler_.evacuate(*parcel)) continue;
        free_parcel(memory_, parcel);
        return;
    }
}

// ---- The program's threads

namespace {

// A call of `submit` in progress. A full thread pool may run work inside that call: the new work, or earlier work of
// any engine. Such work must not wait for launches, because their kernels may be after the host function that makes the
// call. So it returns immediately, and its engine provides another thread.
struct submit_call {
    const engine_threads *const of;
    submit_call *const outer;
    bool has_run_work = false; // work of these threads
};
thread_local submit_call *innermost_submit = nullptr; // on this thread

} // namespace

engine_threads::visitors engine_threads::submit(std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
        submit_call call = {this, innermost_submit};
        innermost_submit = &call;
        ++visitors_;
        const bool is_taken = options_.submit(options_.submit_user, visit, this) != 0;
        innermost_submit = call.outer;
        if (!is_taken) --visitors_;
        if (call.has_run_work) return visitors::ran_at_once;
        if (!is_taken) return i != 0 ? visitors::granted : visitors::refused;
    }
    return visitors::granted;
}

void engine_threads::request_visitors(std::uint32_t count, bool caller_helps) noexcept {
    const visitors answer = submit(count);
    if (answer == visitors::granted || (answer == visitors::refused && caller_helps)) return;
    // The kernel runs after this host function, so this thread cannot serve it. If neither the program nor the system
    // provides a thread, the stream stays blocked until one of them does.
    while (!start_substitute() && !is_draining_ && submit(1) != visitors::granted)
        rest_for(between_tries_ns);
}

// Replaces work that runs inside `submit`. If the innermost call belongs to this engine, that call provides the thread
// itself.
void engine_threads::replace_visitor() noexcept {
    for (submit_call *call = innermost_submit; call; call = call->outer)
        if (call->of == this) {
            call->has_run_work = true;
            return;
        }
    while (!start_substitute() && !is_draining_)
        rest_for(between_tries_ns);
}

// Starts a thread of the engine if the program provides none. The thread is not stopped later.
bool engine_threads::start_substitute() noexcept {
    const std::lock_guard lock(substitute_mutex_);
    return count_ != 0 || start_resident(any_node, options_.traits);
}

void engine_threads::visit(void *all) noexcept {
    auto &self = *static_cast<engine_threads *>(all);
    if (!innermost_submit)
        self.scheduler_.serve_until(staging_scheduler::server::visitor, any_node, []() noexcept { return false; });
    else
        self.replace_visitor();
    --self.visitors_;
}

} // namespace ferry
