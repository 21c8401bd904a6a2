#include "staging/engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/rounding.h"
#include "device/capture_mode.h"
#include "driver/result.h"
#include "exec/kernel_launch.h"

namespace ferry {

namespace {

// As many as fill the bus of an H200 (51 of 55 GB/s in each direction, with a staging buffer of 16 MiB).
constexpr std::uint32_t default_threads = 8;
constexpr std::uint64_t max_jobs_of_a_page = 256, min_jobs_of_a_page = 16;

// The longest copy that uses streaming stores to the device. To the host, only longer copies use them (H200).
// To the device: a device is slow to read bytes that were just written and still lie in a processor's own cache (16
// MiB: 28 instead of 36 GB/s). In longer copies the first slots have left the cache before the device comes to them,
// and sending all slots through memory would be slower.
// To the host: streaming stores are faster, because they do not read the destination before they write it.
constexpr std::uint64_t cached_bytes = std::uint64_t{32} << 20;

// Maximum bytes of a launch on a device with a display watchdog, which ends kernels after 2 s (Windows) to some 5 s
// (X11). A launch lasts as long as its pages take to come: 0.7 s for cold pages from a hard disk, at 100 MB/s.
constexpr std::uint64_t largest_watched_launch = std::uint64_t{64} << 20;

// How long there is no progress before contexts are asked whether they are still alive.
constexpr std::uint64_t patience_ns = 100'000'000;

std::uint64_t room_of_slot(std::uint64_t slot_size) noexcept { return slot_size + slot_margin; }

} // namespace

// ---- Resources

void staging_engine::set_up(const staged_options &options) noexcept {
    options_ = options;
    options_.threads = options.threads ? std::min(options.threads, std::uint32_t{max_threads})
                                       : std::clamp(available_processors() / 2, 1U, default_threads);
    watchdog_traits_ = options.traits;
    watchdog_traits_.name = "ferry-watchdog";
    options_.slot_size = std::max(options.slot_size / smallest_slot * smallest_slot, smallest_slot);
    options_.slots = std::clamp(options.slots, 1U, staging_buffers::max_slots);
    // Where the program's threads do the work, no thread of the engine adds the second lot.
    options_.first_slots = options.submit ? options_.slots : std::clamp(options.first_slots, 1U, options_.slots);
}

// Enters the primary context. Pinned memory ends with its context, so that must not be one of the program's.
error staging_engine::enter_device(int device, context_scope &scope) noexcept {
    CUcontext context = nullptr;
    if (error failed = contexts_.get_primary(device, context)) return failed;
    return scope.enter(context);
}

error staging_engine::provide(int device, bool needs_threads) noexcept {
    const std::lock_guard lock(mutex_);
    context_scope scope(cu_);
    if (error failed = enter_device(device, scope)) return failed;
    if (error failed = make_ring(device)) return failed;
    device_ring &of = *rings_[device].load(std::memory_order_relaxed);
    if (pages_.size() == 0)
        if (error failed = add_jobs(device)) return failed;
    if (!of.ring.memory[0])
        if (error failed = add_lot(of, true)) return failed;
    const error refused = start_threads();
    if (!options_.submit) add_other_slots(of);
    return needs_threads ? refused : ok;
}

error staging_engine::start_threads() noexcept {
    std::uint32_t count = thread_count_;
    if (count == 0 && !options_.submit) { // once any threads have started, their number stays
        while (count < wanted_threads() && threads_[count].start(work, this, options_.traits))
            ++count;
        thread_count_ = count;
    }
    if (count == 0 && !options_.submit) return no_memory;
    // If the watchdog does not start, copies whose pages do not come may hold up the others.
    if (!watchdog_.is_started()) static_cast<void>(watchdog_.start(watch, this, watchdog_traits_));
    return {};
}

void staging_engine::start_spare() noexcept {
    if (thread_count_ + spare_count_ >= max_threads) return;
    spare_thread *unused = nullptr;
    for (spare_thread &one : spares_) {
        if (!one.thread.is_started())
            unused = &one;
        else if (!one.has_begun)
            return; // the system has not run it yet
    }
    if (!unused) return;
    unused->engine = this;
    unused->has_begun = unused->has_left = false;
    spare_count_ += unused->thread.start(stand_in, unused, options_.traits);
}

void staging_engine::join_spares_that_left() noexcept {
    for (spare_thread &one : spares_) {
        if (spare_count_ == 0) return;
        if (!one.thread.is_started() || !one.has_left.load(std::memory_order_acquire)) continue;
        one.thread.join();
        --spare_count_;
    }
}

// Moves what blocks have copied for stuck workers out of the slots, which other copies wait for.
void staging_engine::evacuate_slots() noexcept {
    while (const staging_buffers *const ring = scheduler_.starved_ring()) {
        const std::uint64_t room = ring->slot_size + slot_margin;
        void *const place = memory_.allocate(sizeof(staged_parcel) + room, alignof(staged_parcel));
        if (!place) return;
        auto *const parcel = new (place) staged_parcel{.room = room};
        if (scheduler_.evacuate(*parcel)) continue;
        free_parcel(memory_, parcel);
        return;
    }
}

error staging_engine::make_ring(int device) noexcept {
    if (rings_[device].load(std::memory_order_relaxed)) return {};
    const std::uint32_t room = options_.slots;
    void *const place = memory_.allocate(sizeof(device_ring), alignof(device_ring));
    void *const slots = memory_.allocate(room * sizeof(staged_slot), alignof(staged_slot));
    if (!place || !slots) {
        memory_.deallocate(place, sizeof(device_ring));
        memory_.deallocate(slots, room * sizeof(staged_slot));
        return no_memory;
    }
    auto *const made = new (place) device_ring;
    made->engine = this;
    made->device = device;
    made->ring.room = room;
    made->ring.slot_size = options_.slot_size;
    made->ring.slots = static_cast<staged_slot *>(slots);
    made->ring.parcel_memory = &memory_;
    std::uninitialized_default_construct_n(made->ring.slots, room);
    rings_[device].store(made, std::memory_order_release);
    return {};
}

// Call in the device's context. Where less memory can be pinned, there are fewer slots, down to one. If even one slot
// of the first lot does not fit, that slot is smaller.
error staging_engine::add_lot(device_ring &of, bool first) noexcept {
    staging_buffers &ring = of.ring;
    const std::uint32_t begin = first ? 0 : ring.used[0], lot = first ? 0 : 1;
    const std::uint32_t wanted = first ? options_.first_slots : ring.room - begin;
    if (wanted == 0) return {};
    if (first) ring.slot_size = options_.slot_size;
    const std::uint64_t least = room_of_slot(first ? smallest_slot : ring.slot_size);
    staged_memory &memory = ring.memory[lot];
    if (error failed = memory.allocate(cu_, pinned_, wanted * room_of_slot(ring.slot_size), least,
                                       devices_[of.device].info.numa_node))
        return failed;
    if (memory.block.size < room_of_slot(ring.slot_size))
        ring.slot_size = (memory.block.size - slot_margin) / smallest_slot * smallest_slot;
    const std::uint64_t room = room_of_slot(ring.slot_size);
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, memory.block.size / room));
    for (std::uint32_t i = 0; i < count; ++i) {
        staged_slot &slot = ring.slots[begin + i];
        slot.host = memory.host() + i * room;
        slot.device_address = memory.device_address + i * room;
        slot.is_of_first_lot = first;
    }
    ring.used[lot] = count;
    ring_bytes_ += memory.block.size;
    scheduler_.add_slots(ring, ring.slots + begin, count);
    return {};
}

// Adds the second lot on another thread, because the allocation may wait for work that waits for slots. If no thread
// can be started, the first lot has to do.
void staging_engine::add_other_slots(device_ring &of) noexcept {
    if (of.is_adding.load(std::memory_order_acquire)) return;
    of.adding.join();
    of.wants_more = false;
    if (of.ring.memory[1] || of.ring.used[0] == of.ring.room || is_closing_) return;
    const auto add = [](void *given) {
        device_ring &ring = *static_cast<device_ring *>(given);
        staging_engine &engine = *ring.engine;
        {
            context_scope scope(engine.cu_);
            if (!engine.enter_device(ring.device, scope))
                static_cast<void>(engine.add_lot(ring, false)); // without the second lot copies work, but are slower
        }
        ring.is_adding.store(false, std::memory_order_release);
    };
    of.is_adding.store(true, std::memory_order_relaxed);
    if (!of.adding.start(add, &of, options_.traits)) of.is_adding.store(false, std::memory_order_relaxed);
}

error staging_engine::add_jobs(int device) noexcept {
    context_scope scope(cu_);
    if (error failed = enter_device(device, scope)) return failed;
    if (!pages_.reserve(pages_.size() + 1)) return no_memory;
    job_page page = {};
    constexpr std::uint64_t record = sizeof(kernels::ring_record);
    if (error failed =
            page.records.allocate(cu_, pinned_, max_jobs_of_a_page * record, min_jobs_of_a_page * record, any_node))
        return failed;
    std::memset(page.records.host(), 0, page.records.block.size);
    page.count = static_cast<std::uint32_t>(page.records.block.size / record);
    page.launches =
        static_cast<staging_launch *>(memory_.allocate(page.count * sizeof(staging_launch), alignof(staging_launch)));
    if (!page.launches) {
        page.records.free(pinned_);
        return no_memory;
    }
    std::uninitialized_default_construct_n(page.launches, page.count);
    for (std::uint32_t i = page.count; i-- != 0;) {
        staging_launch &launch = page.launches[i];
        launch.record = reinterpret_cast<kernels::ring_record *>(page.records.host()) + i;
        launch.device_record = page.records.device_address + i * record;
        launch.owner = this;
        scheduler_.add(launch);
    }
    pages_.append_reserved(page);
    return {};
}

// ---- Copies

// Provides and holds the device's staging buffer: the first lot stays, and slots keep their size, until let_go().
error staging_engine::hold_ring(const staged_copy &copy, device_ring *&of) noexcept {
    const bool needs_threads = !copy.caller_helps;
    of = rings_[copy.device].load(std::memory_order_acquire);
    while (!of || (needs_threads && !has_threads()) || !scheduler_.hold(of->ring)) {
        if (error failed = provide(copy.device, needs_threads)) return failed;
        of = rings_[copy.device].load(std::memory_order_acquire);
    }
    if (!options_.submit && of->wants_more.load(std::memory_order_relaxed) && mutex_.try_lock()) {
        add_other_slots(*of);
        mutex_.unlock();
    }
    return {};
}

error staging_engine::take_jobs(const staged_copy &copy, std::uint64_t count, staging_launch *&taken) noexcept {
    while (!(taken = scheduler_.take(count, copy.is_captured))) {
        const std::lock_guard lock(mutex_);
        if (error failed = add_jobs(copy.device)) return failed;
    }
    return {};
}

// A launch that fails has been released. `is_announced_there`: the host function was enqueued.
error staging_engine::launch_kernel(const staged_copy &copy, staging_launch &launch, CUstream stream,
                                    bool &is_announced_there) noexcept {
    kernels::ring_parameters given = launch.cut->parameters();
    given.record = launch.device_record;
    given.is_shared = copy.is_captured;
    const bool by_function = is_announced(copy);
    if (by_function) {
        const CUhostFn expect = [](void *given) {
            auto &expected = *static_cast<staging_launch *>(given);
            static_cast<staging_engine *>(expected.owner)->announce(expected);
        };
        if (CUresult result = cu_.cuLaunchHostFunc(stream, expect, &launch)) {
            scheduler_.release(launch, false);
            return to_error(result);
        }
        is_announced_there = true;
    }
    const error failed = launch_ring(cu_, kernels_, launch.cut->kernel(), given, launch.blocks, stream);
    if (failed) scheduler_.release(launch, by_function);
    return failed;
}

void staging_engine::share_out(const staged_copy &copy, const tracked_context &context, const staging &cut,
                               device_ring &of, std::uint64_t per_launch, staged_progress *watch,
                               staging_launch *taken) const noexcept {
    const std::uint32_t wanted = blocks_for_threads(wanted_threads() + copy.caller_helps, cut.box().to_device);
    const std::uint64_t blocks = std::min(copy.blocks ? copy.blocks : wanted, kernels::max_ring_blocks);
    const bool is_short = cut.bytes_before(cut.chunk_count()) <= cached_bytes;
    std::uint64_t first = 0;
    for (staging_launch *launch = taken; launch; launch = launch->next_launch) {
        const std::uint64_t end = std::min(first + per_launch, cut.chunk_count());
        launch->cut.emplace(cut);
        launch->ring = &of.ring;
        launch->watch = watch;
        launch->context = &context;
        launch->caller_helps = copy.caller_helps;
        launch->first_chunk = first;
        launch->end_chunk = end;
        launch->blocks = static_cast<std::uint32_t>(std::min(blocks, end - first));
        const std::uint64_t each = divide_up(end - first, launch->blocks); // no block has many while others have none
        launch->max_slots_each = static_cast<std::uint32_t>(std::min<std::uint64_t>(each, staging_channel::max_slots));
        launch->are_stores_streamed = is_short == cut.box().to_device;
        first = end;
    }
}

// Takes all launches before the first kernel is launched, and announces them then if no host function will. Workers
// want the scheduler's mutex all the time, and a kernel launch may wait for something that waits for the launch before.
error staging_engine::enqueue(const staged_copy &copy, CUstream stream, staged_progress *watch) noexcept {
    const bool by_function = is_announced(copy);
    if (by_function && !cu_.cuLaunchHostFunc) return {.status = FERRY_ERROR_UNSUPPORTED};
    const tracked_context *context = nullptr;
    if (error failed = tracked_.track(copy.context, context)) return failed;
    device_ring *of = nullptr;
    if (error failed = hold_ring(copy, of)) return failed;
    const staging cut(copy.box, of->ring.slot_size);
    const std::uint64_t largest = devices_[copy.device].has_watchdog
                                      ? std::min(options_.largest_launch, largest_watched_launch)
                                      : options_.largest_launch;
    const std::uint64_t per_launch = std::max<std::uint64_t>(largest / cut.chunk_size(), 1);
    const std::uint64_t launches = divide_up(cut.chunk_count(), per_launch);
    if (copy.is_captured) watch = nullptr; // the copy may run any number of times
    staging_launch *next = nullptr;
    error failed = take_jobs(copy, launches, next);
    if (next) {
        share_out(copy, *context, cut, *of, per_launch, watch, next);
        if (watch) watch->launches_left.store(static_cast<std::uint32_t>(launches), std::memory_order_relaxed);
        if (!by_function) scheduler_.expect_all(*next);
    }
    if (next) failed = launch_all(copy, *next, stream);
    scheduler_.let_go();
    return failed;
}

// Launches all kernels of a copy. Launches behind one that fails are released.
error staging_engine::launch_all(const staged_copy &copy, staging_launch &first, CUstream stream) noexcept {
    error failed;
    staging_launch *next = &first, *last_in_graph = nullptr;
    while (next && !failed) {
        staging_launch &launch = *std::exchange(next, next->next_launch);
        const std::uint64_t use = launch.use; // the launch may be another copy's before keep() is called
        bool is_announced_there = false;
        failed = launch_kernel(copy, launch, stream, is_announced_there);
        if (is_announced_there && !failed) scheduler_.keep(launch, use);
        if (is_announced_there && copy.is_captured) last_in_graph = &launch; // a captured launch stays this copy's
    }
    if (last_in_graph && last_in_graph->next_launch) last_in_graph->next_launch = nullptr;
    while (next)
        scheduler_.release(*std::exchange(next, next->next_launch), false);
    if (last_in_graph) graphs_.tie(stream, first);
    return failed;
}

void staging_engine::announce(staging_launch &launch) noexcept {
    // Read first: after expect() the launch may be another copy's.
    const std::uint64_t chunks = launch.end_chunk - launch.first_chunk;
    const bool caller_helps = launch.caller_helps;
    scheduler_.expect(launch);
    if (!options_.submit) return;
    const auto asked = static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted_threads(), chunks));
    if (ask_for_visitors(asked) || caller_helps) return;
    // The kernel comes after this host function, so this thread cannot serve it. If neither the program nor the system
    // has a thread, the stream stands still until one of them has.
    constexpr std::uint64_t between_tries_ns = 1'000'000;
    while (!start_substitute() && !is_draining_ && !ask_for_visitors(1))
        rest_for(between_tries_ns);
}

// Returns false where no visitor will come.
bool staging_engine::ask_for_visitors(std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
        ++visitors_;
        if (options_.submit(options_.submit_user, visit, this)) continue;
        --visitors_;
        return i != 0;
    }
    return true;
}

// Starts a thread of the engine where the program has refused. The thread stays.
bool staging_engine::start_substitute() noexcept {
    const std::lock_guard lock(substitute_mutex_);
    if (thread_count_ == 0 && threads_[0].start(work, this, options_.traits)) thread_count_ = 1;
    return thread_count_ != 0;
}

void staging_engine::work(void *engine) noexcept {
    auto &self = *static_cast<staging_engine *>(engine);
    self.scheduler_.serve_until(staging_scheduler::worker::resident, nullptr,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
}

void staging_engine::stand_in(void *spare) noexcept {
    auto &mine = *static_cast<spare_thread *>(spare);
    staging_engine &self = *mine.engine;
    mine.has_begun = true;
    self.scheduler_.serve_until(staging_scheduler::worker::spare, nullptr,
                                [&]() noexcept { return self.is_closing_.load(std::memory_order_relaxed); });
    mine.has_left.store(true, std::memory_order_release);
}

// The watchdog. Makes no driver call and touches no program memory, so that nothing holds it up.
void staging_engine::watch(void *engine) noexcept {
    auto &self = *static_cast<staging_engine *>(engine);
    while (!self.is_closing_) {
        self.join_spares_that_left();
        // Where the program's threads do the work, the program decides how many there are.
        const std::uint32_t enough = self.options_.submit ? 1 : self.thread_count_.load();
        if (self.scheduler_.inspect(clock_ns(), enough)) self.start_spare();
        self.evacuate_slots();
        self.scheduler_.wait_to_inspect(self.spare_count_ != 0, self.is_closing_);
    }
}

void staging_engine::visit(void *engine) noexcept {
    auto &self = *static_cast<staging_engine *>(engine);
    self.scheduler_.serve_until(staging_scheduler::worker::visitor, nullptr, []() noexcept { return false; });
    --self.visitors_;
}

// ---- The end

void staging_engine::lose_dead() noexcept {
    for (const tracked_context *one = scheduler_.context_after(nullptr); one; one = scheduler_.context_after(one)) {
        const error dead = tracked_.ask(*one);
        if (!dead) continue;
        tracked_.forget(*one);
        scheduler_.lose(*one, dead.status);
    }
}

void staging_engine::forget(CUcontext context) noexcept {
    while (const tracked_context *const gone = tracked_.find(context)) {
        tracked_.forget(*gone);
        scheduler_.lose(*gone, to_status(CUDA_ERROR_CONTEXT_IS_DESTROYED));
    }
}

error staging_engine::help(staged_progress &watch) noexcept {
    while (!watch.is_done()) {
        const std::uint64_t bytes_done = watch.bytes_done, until = clock_ns() + patience_ns;
        scheduler_.serve_until(staging_scheduler::worker::helper, &watch,
                               [&]() noexcept { return watch.is_done() || clock_ns() >= until; });
        if (!watch.is_done() && watch.bytes_done == bytes_done) lose_dead();
    }
    return {.status = watch.status.load(std::memory_order_relaxed)};
}

error staging_engine::free_lot(device_ring &of, bool first) noexcept {
    staging_buffers &ring = of.ring;
    const int lot = first ? 0 : 1;
    const std::uint64_t size = ring.memory[lot].block.size;
    if (size == 0 || !scheduler_.take_slots(ring, first)) return {};
    if (error failed = ring.memory[lot].free(pinned_)) {
        scheduler_.add_slots(ring, ring.slots + (first ? 0 : ring.used[0]), ring.used[lot]);
        return failed;
    }
    ring_bytes_ -= size;
    ring.used[lot] = 0;
    return {};
}

error staging_engine::trim() noexcept {
    const std::lock_guard lock(mutex_);
    error first_failed;
    const auto note = [&](const error &failed) noexcept {
        if (!first_failed) first_failed = failed;
        return failed;
    };
    for (std::atomic<device_ring *> &one : rings_) {
        device_ring *const of = one.load(std::memory_order_relaxed);
        context_scope scope(cu_);
        if (!of || of->is_adding.load(std::memory_order_acquire) || note(enter_device(of->device, scope))) continue;
        note(free_lot(*of, false));
        if (!of->ring.memory[1]) note(free_lot(*of, true));
        of->wants_more = true;
    }
    return first_failed;
}

void staging_engine::close() noexcept {
    for (std::atomic<device_ring *> &one : rings_)
        if (device_ring *const of = one.load(std::memory_order_relaxed)) of->adding.join();

    is_draining_ = true;
    std::uint64_t changed = clock_ns();
    for (staging_scheduler::outlook before = {}, now = scheduler_.look_ahead(); now.pending || now.leaving;
         before = now, now = scheduler_.look_ahead()) {
        const std::uint64_t until = clock_ns() + 100'000;
        scheduler_.serve_until(staging_scheduler::worker::helper, nullptr,
                               [&]() noexcept { return clock_ns() >= until; });
        if (now.pending == 0) rest_for(20'000); // for blocks that have yet to come, and find nothing left to do
        if (now != before) changed = clock_ns();
        if (clock_ns() - changed < patience_ns) continue;
        changed = clock_ns();
        lose_dead();
    }
    graphs_.close();
    is_closing_ = true;
    scheduler_.wake_all();
    watchdog_.join();
    {
        const std::lock_guard lock(substitute_mutex_);
        for (worker_thread &one : threads_)
            one.join();
        for (spare_thread &one : spares_)
            one.thread.join();
        thread_count_ = spare_count_ = 0;
    }
    while (visitors_ != 0)
        rest_for(20'000);

    for (std::atomic<device_ring *> &one : rings_) {
        device_ring *const of = one.load(std::memory_order_relaxed);
        context_scope scope(cu_);
        if (!of) continue;
        // If this fails, memory is freed all the same, provided that any context is current.
        static_cast<void>(enter_device(of->device, scope));
        for (job_page &page : pages_)
            page.records.free(pinned_);
        for (staged_memory &lot : of->ring.memory)
            lot.free(pinned_);
    }
    tracked_.close();
}

staging_engine::~staging_engine() {
    // In the child of a fork, the scheduler may count threads as asleep that the child does not have. Its destructor
    // would wait for them.
    if (thread_count_ == 0 && !watchdog_.is_started()) scheduler_.~staging_scheduler();
    for (const job_page &page : pages_)
        memory_.deallocate(page.launches, page.count * sizeof(staging_launch));
    for (std::atomic<device_ring *> &one : rings_) {
        device_ring *const of = one.load(std::memory_order_relaxed);
        if (!of) continue;
        memory_.deallocate(of->ring.slots, of->ring.room * sizeof(staged_slot));
        memory_.deallocate(of, sizeof(device_ring));
    }
}

} // namespace ferry
