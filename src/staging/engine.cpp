#include "staging/engine.h"

#include <algorithm>
#include <memory>

#include "driver/result.h"

namespace ferry {

namespace {

// The time without progress after which the engine queries whether contexts are still alive.
constexpr std::uint64_t patience_ns = 100'000'000;

} // namespace

void staging_engine::set_up(const staged_options &options) noexcept {
    options_ = options;
    options_.threads = std::min(options.threads, std::uint32_t{max_threads});
    threads_.set_up();
    options_.slot_size = std::max(options.slot_size / min_slot * min_slot, min_slot);
    options_.slots = std::clamp(options.slots, 1U, staging_buffers::max_slots);
    // If the program's threads do the work, no thread of the engine adds other lots.
    options_.first_slots = options.submit ? options_.slots : std::clamp(options.first_slots, 1U, options_.slots);
}

void staging_engine::help_for(staged_progress &progress, std::uint64_t time_ns) noexcept {
    const std::uint64_t until = clock_ns() + time_ns;
    scheduler_.help_until(&progress, [&]() noexcept { return progress.is_done() || clock_ns() >= until; });
}

error staging_engine::help(staged_progress &progress) noexcept {
    while (!progress.is_done()) {
        const std::uint64_t bytes_done = progress.bytes_done;
        help_for(progress, patience_ns);
        if (!progress.is_done() && progress.bytes_done == bytes_done) lose_dead();
    }
    return {.status = progress.status.load(std::memory_order_relaxed)};
}

// ---- Delays

staging_engine::delays staging_engine::delays_on(int device) noexcept {
    const recent_delay &of_threads = scheduler_.thread_delay();
    const device_buffers *const of = buffers_[device].load(std::memory_order_acquire);
    const std::uint64_t now = clock_ns();
    delays found = {.threads_ns = of_threads.at(now), .idle_ns = scheduler_.idle_time(now)};
    if (of) found.start_ns = std::max(of->buffers.start_delay.at(now), scheduler_.longest_wait(of->buffers, now));
    return found;
}

void staging_engine::wake_threads(int device) noexcept {
    constexpr std::uint64_t pause_ns = 500'000;
    const device_buffers *const of = buffers_[device].load(std::memory_order_acquire);
    if (of && has_own_threads() && scheduler_.idle_time(clock_ns()) > pause_ns)
        scheduler_.prepare_for_run(of->buffers, wanted_threads());
}

void staging_engine::measure_thread_delay() noexcept {
    constexpr std::uint64_t between_measurements_ns = 1'000'000;
    const std::uint64_t now = clock_ns();
    if (now < next_measurement_ns_.load(std::memory_order_relaxed)) return;
    next_measurement_ns_.store(now + between_measurements_ns, std::memory_order_relaxed);
    scheduler_.measure_thread_delay();
}

// ---- Contexts that die

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

// ---- The end

void staging_engine::close() noexcept {
    for (std::atomic<device_buffers *> &one : buffers_)
        if (device_buffers *const of = one.load(std::memory_order_relaxed)) of->adding.join();

    threads_.drain();
    std::uint64_t changed = clock_ns();
    for (staging_scheduler::outlook before = {}, now = scheduler_.look_ahead(); now.pending || now.leaving;
         before = now, now = scheduler_.look_ahead()) {
        const std::uint64_t until = clock_ns() + 100'000;
        scheduler_.help_until(nullptr, [&]() noexcept { return clock_ns() >= until; });
        if (now.pending == 0) rest_for(20'000); // for blocks that start late and find no work
        if (now != before) changed = clock_ns();
        if (clock_ns() - changed < patience_ns) continue;
        changed = clock_ns();
        lose_dead();
    }
    graphs_.close();
    threads_.close();
    scheduler_.close_files();

    for (std::atomic<device_buffers *> &one : buffers_) {
        device_buffers *const of = one.load(std::memory_order_relaxed);
        context_scope scope(cu_);
        if (!of) continue;
        // If this fails, memory is freed anyway, provided that a context is current.
        static_cast<void>(enter_device(of->device, scope));
        for (launch_page &page : pages_)
            page.records.free(cu_, contexts_, pinned_);
        for (staged_memory &lot : of->buffers.memory)
            lot.free(cu_, contexts_, pinned_);
    }
    sides_.close();
    tracked_.close();
}

std::uint64_t staging_engine::failed_files() const noexcept {
    std::uint64_t failed = 0;
    for (const std::atomic<device_buffers *> &one : buffers_)
        if (const device_buffers *const of = one.load(std::memory_order_acquire)) failed += of->buffers.failed_files;
    return failed;
}

staging_engine::~staging_engine() {
    // In a forked child, the scheduler may count threads as asleep that do not exist there. Its destructor would wait
    // for them.
    if (threads_.have_ended()) scheduler_.~staging_scheduler();
    for (const launch_page &page : pages_) {
        std::destroy_n(page.launches, page.count);
        memory_.deallocate(page.launches, page.count * sizeof(staging_launch));
    }
    for (std::atomic<device_buffers *> &one : buffers_) {
        device_buffers *const of = one.load(std::memory_order_relaxed);
        if (!of) continue;
        memory_.deallocate(of->buffers.slots, of->buffers.room * sizeof(staged_slot));
        memory_.deallocate(of, sizeof(device_buffers));
    }
}

} // namespace ferry
