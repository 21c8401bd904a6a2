// The engine's threads: workers, spares, the watchdog, and the program's threads that replace workers.
#include <algorithm>
#include <new>

#include "staging/engine.h"

namespace ferry {

std::uint32_t staging_engine::threads_for_all_devices() const noexcept {
    if (options_.threads) return options_.threads;
    std::uint32_t devices = 0;
    for (const std::atomic<device_buffers *> &one : buffers_)
        devices += one.load(std::memory_order_relaxed) != nullptr;
    return default_threads(options_.processors, devices);
}

// Whether the threads that are started for a device run on the processors of its NUMA node, where each thread then
// fills slots in local memory. Like the threads for the whole process, they leave half of the processors to the
// program.
bool staging_engine::find_home(device_buffers &of, std::uint32_t threads) const noexcept {
    const int node = devices_[of.device].info.numa_node;
    if (!options_.processors_of_node || options_.threads || !is_home(node)) return false;
    if (!of.traits.processors) { // otherwise threads may already read it
        of.processors = options_.processors_of_node(node);
        if (options_.traits.processors) of.processors.keep(*options_.traits.processors);
        of.traits = options_.traits;
        of.traits.processors = &of.processors;
    }
    const std::uint32_t processors = of.processors.count();
    return processors >= 2 * threads && processors < options_.processors; // otherwise all processors are on that node
}

bool staging_engine::start_resident(int home, const thread_traits &traits) noexcept {
    resident_thread &next = threads_[thread_count_];
    next.engine = this;
    next.home = home;
    if (!next.thread.start(work, &next, traits)) return false;
    ++thread_count_;
    return true;
}

error staging_engine::start_threads(device_buffers &of) noexcept {
    const std::uint32_t wanted = threads_for_all_devices();
    if ((thread_count_ == 0 || wanted > threads_wanted_) && !options_.submit) { // otherwise there are enough threads
        const bool have_home = find_home(of, wanted - std::min<std::uint32_t>(thread_count_, wanted));
        const int home = have_home ? devices_[of.device].info.numa_node : any_node;
        while (thread_count_ < wanted && start_resident(home, have_home ? of.traits : options_.traits)) {
        }
        threads_wanted_ = wanted;
    }
    const int node = devices_[of.device].info.numa_node;
    for (std::uint32_t i = 0; i < thread_count_; ++i)
        if (is_home(node) && threads_[i].home == node) of.buffers.home = node;
    if (thread_count_ == 0 && !options_.submit) return no_memory;
    // If the watchdog does not start, a copy that is blocked in page faults may delay other copies.
    if (!watchdog_.is_started()) static_cast<void>(watchdog_.start(run_watchdog, this, watchdog_traits_));
    return {};
}

void staging_engine::work(void *resident) noexcept {
    const auto &mine = *static_cast<const resident_thread *>(resident);
    staging_engine &self = *mine.engine;
    self.scheduler_.serve_until(staging_scheduler::server::resident, mine.home,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
}

// ---- The watchdog and the spares

// The watchdog. Makes no driver call and accesses no program memory, so nothing can block it.
void staging_engine::run_watchdog(void *engine) noexcept {
    auto &self = *static_cast<staging_engine *>(engine);
    while (!self.is_closing_) {
        self.join_spares_that_left();
        // If the program's threads do the work, the program decides how many there are.
        const std::uint32_t enough = self.options_.submit ? 1 : self.thread_count_.load();
        if (self.scheduler_.inspect(clock_ns(), enough)) self.start_spare();
        if (self.scheduler_.is_helper_late()) self.start_to_ask();
        self.evacuate_slots();
        self.scheduler_.wait_to_inspect(self.spare_count_ != 0, self.is_closing_);
    }
}

// Queries on a separate thread whether contexts have died, because a driver call may wait for a lock of the driver.
void staging_engine::start_to_ask() noexcept {
    if (asking_.is_started() && !has_asked_.load(std::memory_order_acquire)) return;
    asking_.join();
    has_asked_ = false;
    const auto ask = [](void *engine) {
        auto &self = *static_cast<staging_engine *>(engine);
        self.lose_dead();
        self.has_asked_.store(true, std::memory_order_release);
    };
    static_cast<void>(asking_.start(ask, this, watchdog_traits_));
}

void staging_engine::start_spare() noexcept {
    if (thread_count_ + spare_count_ >= max_threads) return;
    spare_thread *unused = nullptr;
    for (spare_thread &one : spares_) {
        if (!one.thread.is_started())
            unused = &one;
        else if (!one.has_begun)
            return; // the system has not run the thread yet
    }
    if (!unused) return;
    unused->engine = this;
    unused->has_begun = unused->has_left = false;
    spare_count_ += unused->thread.start(run_spare, unused, options_.traits);
}

void staging_engine::run_spare(void *spare) noexcept {
    auto &mine = *static_cast<spare_thread *>(spare);
    staging_engine &self = *mine.engine;
    mine.has_begun = true;
    self.scheduler_.serve_until(staging_scheduler::server::spare, any_node,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
    mine.has_left.store(true, std::memory_order_release);
}

void staging_engine::join_spares_that_left() noexcept {
    for (spare_thread &one : spares_) {
        if (spare_count_ == 0) return;
        if (!one.thread.is_started() || !one.has_left.load(std::memory_order_acquire)) continue;
        one.thread.join();
        --spare_count_;
    }
}

// Moves bytes that blocks have copied for stuck workers out of slots that other copies wait for.
void staging_engine::evacuate_slots() noexcept {
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
// call. So it returns at once, and its engine provides another thread.
struct submit_call {
    const staging_engine *const engine;
    submit_call *const outer;
    bool has_run_work = false; // work of that engine
};
thread_local submit_call *innermost_submit = nullptr; // on this thread

} // namespace

staging_engine::visitors staging_engine::request_visitors(std::uint32_t count) noexcept {
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

// Replaces work that runs inside `submit`. If the innermost call belongs to this engine, that call provides the thread
// itself.
void staging_engine::replace_visitor() noexcept {
    for (submit_call *call = innermost_submit; call; call = call->outer)
        if (call->engine == this) {
            call->has_run_work = true;
            return;
        }
    while (!start_substitute() && !is_draining_)
        rest_for(between_tries_ns);
}

// Starts a thread of the engine if the program provides none. The thread is not stopped later.
bool staging_engine::start_substitute() noexcept {
    const std::lock_guard lock(substitute_mutex_);
    return thread_count_ != 0 || start_resident(any_node, options_.traits);
}

void staging_engine::visit(void *engine) noexcept {
    auto &self = *static_cast<staging_engine *>(engine);
    if (!innermost_submit)
        self.scheduler_.serve_until(staging_scheduler::server::visitor, any_node, []() noexcept { return false; });
    else
        self.replace_visitor();
    --self.visitors_;
}

} // namespace ferry
