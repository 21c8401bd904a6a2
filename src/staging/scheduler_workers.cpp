// How workers find a channel, serve it, wait for the next one, sleep and are woken.
#include <algorithm>
#include <utility>

#include "base/threads.h"
#include "staging/scheduler.h"

namespace ferry {

namespace {

// How long a worker stays awake without work: about as long as waking it takes. While launches are running it stays
// awake longer, because the next chunk comes soon.
constexpr std::uint64_t idle_patience_ns = 50'000, idle_patience_running_ns = 1'000'000;
constexpr int pauses_between_looks = 32; // some microseconds
// After this time without a look of its own, a worker no longer relies on the leader, which may not be running.
constexpr std::uint64_t longest_lead_ns = 100'000;
// How long a helper waits, with work but without servers, before it asks for one more server.
constexpr std::uint64_t patience_without_servers_ns = 1'000'000;

// Returns whether the launch has work for one more worker.
bool wants_another(const staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
        const staging_channel &channel = launch.record.channels[block];
        if (channel.is_taken) continue;
        if (has_arrived(launch, block) ||
            (has_room(launch, channel) && (channel.idle_count != 0 || launch.work.buffers->free_count != 0)))
            return true;
    }
    return false;
}

} // namespace

// ---- The next channel

bool staging_scheduler::may_go_on(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    if (channel.is_taken) return false;
    look_at(launch, block);
    const bool has_returned = return_slots(launch, channel); // other launches get these slots first
    return has_arrived(launch, block) || (!has_returned && has_room(launch, channel) && supply(launch, channel));
}

bool staging_scheduler::choose_channel(staging_launch &launch, std::uint32_t &block) noexcept {
    for (std::uint32_t i = 0; i < launch.work.blocks; ++i) {
        block = (launch.run.next_block + i) % launch.work.blocks;
        if (!may_go_on(launch, block)) continue;
        launch.run.next_block = block + 1;
        return true;
    }
    return false;
}

bool staging_scheduler::take_task(staging_launch &launch, bool is_server, task &found) noexcept {
    std::uint32_t block = 0;
    const bool is_chosen = choose_channel(launch, block);
    if (!is_chosen && end_if_done(launch)) return false;
    launches_.move(launch, launch_state::running); // to the end of the list: the launch has had its turn
    if (!is_chosen) return false;
    staging_channel &channel = launch.record.channels[block];
    channel.is_taken = true;
    channel.is_by_server = is_server;
    ++launch.shared.busy;
    ++launch.work.buffers->at_channels;
    found = {&launch, block};
    return true;
}

// A launch with stuck workers gets another worker only when no other launch has work. It never gets the last free
// server. A worker that serves only one copy (`one`) looks at no other copy, and may take up its own at any time.
staging_scheduler::task staging_scheduler::find_task(std::uint64_t now, const staged_progress *one,
                                                     bool is_server) noexcept {
    // While launches are running, it is enough to look at the expected ones now and then.
    constexpr std::uint64_t between_looks_ns = 10'000;
    if (!launches_.has(launch_state::running) || now - looked_ns_ >= between_looks_ns) look_for_arrivals(now);
    task found;
    for (const bool may_be_stuck : {false, true}) {
        if (may_be_stuck && (!is_any_stuck_ || (!one && servers() < stuck_ + 2))) break;
        staging_launch *const last = launches_.last(launch_state::running);
        for (staging_launch *next = launches_.first(launch_state::running); next;) {
            staging_launch &launch = *next;
            next = &launch == last ? nullptr : launch.next;
            if ((launch.run.stuck != 0) != may_be_stuck || (one && launch.work.progress != one)) continue;
            if (take_task(launch, is_server, found)) return found;
        }
    }
    return found;
}

// ---- At a channel

// Serves the channel as long as the worker has nothing better to do.
void staging_scheduler::serve_channel(staging_launch &launch, std::uint32_t block, bool (*is_over)(void *user),
                                      void *user) const noexcept {
    constexpr std::uint64_t turn = std::uint64_t{1} << 20; // bytes, while other launches are expected or running
    constexpr std::uint64_t patience_with_block_ns = 20'000;
    constexpr std::uint32_t enough = 2; // messages for a block, while other blocks have no worker
    const staging_channel &channel = launch.record.channels[block];
    std::uint64_t moved = 0, idle_since = 0;
    while (!launch.shared.is_lost.load(std::memory_order_relaxed)) {
        const std::uint64_t bytes = advance(launch, block);
        moved += bytes;
        if (is_over(user)) return;
        const bool has_chunks = launch.has_chunks();
        const bool are_all_served = launch.shared.busy.load(std::memory_order_relaxed) == launch.work.blocks;
        if (moved >= turn && ahead() > 1) return;
        const slot_share share = compare_with_share(launch, channel);
        if (channel.idle_count != 0 && share == slot_share::over) return;
        if (has_chunks && !are_all_served && channel.published - channel.taken_back >= enough) return;
        if (has_chunks && share == slot_share::under &&
            launch.work.buffers->free_count.load(std::memory_order_relaxed) != 0)
            return;
        if (bytes != 0) {
            idle_since = 0;
            continue;
        }
        if (!has_chunks && (launch.work.is_to_device() || channel.published == channel.taken_back)) return;
        if (!are_all_served || channel.slots() == 0) return;
        const std::uint64_t now = clock_ns();
        if (!idle_since) idle_since = now;
        if (now - idle_since > patience_with_block_ns) return;
        relax_processor();
    }
}

void staging_scheduler::complete(const task &done) noexcept {
    staging_launch &launch = *done.launch;
    staging_channel &channel = launch.record.channels[done.block];
    channel.is_taken = false;
    if (std::exchange(channel.is_stuck, false)) {
        --launch.run.stuck;
        stuck_ -= channel.is_by_server;
    }
    --launch.work.buffers->at_channels;
    const bool are_all = --launch.shared.busy == 0;
    if (launch.shared.is_lost) {
        if (are_all) end_lost(launch);
        return;
    }
    return_slots(launch, channel);
    end_if_done(launch);
}

// ---- Without work

void staging_scheduler::sleep(lock &held) noexcept {
    --awake_;
    ++asleep_;
    while (called_ == 0) {
        const std::uint32_t seen = calls_.load(std::memory_order_relaxed);
        unlock(held);
        calls_.wait(seen, std::memory_order_relaxed);
        lock_again(held);
    }
    --called_;
    ++awake_;
}

void staging_scheduler::wake(std::uint64_t count) noexcept {
    const auto called = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, asleep_));
    asleep_ -= called;
    called_ += called;
    uncalled_ += called;
}

// Makes the system calls that wake servers after the mutex is unlocked, because they take microseconds.
void staging_scheduler::unlock(lock &held) noexcept {
    const std::uint32_t uncalled = std::exchange(uncalled_, 0);
    if (uncalled != 0) calls_.fetch_add(1, std::memory_order_relaxed);
    const bool are_all = asleep_ == 0;
    held.unlock();
    if (uncalled > 1 && are_all) return calls_.notify_all();
    for (std::uint32_t i = 0; i < uncalled; ++i)
        calls_.notify_one();
}

void staging_scheduler::wake_all() noexcept {
    lock held = acquire();
    wake(asleep_);
    is_watchdog_asleep_ = false;
    inspection_.notify_one();
    unlock(held);
}

// Takes the lead once it is free. Returns false if `is_over`, or if nobody gives the lead up before `until`.
bool staging_scheduler::wait_for_lead(bool (*is_over)(void *user), void *user, std::uint64_t until) noexcept {
    while (!is_over(user) && clock_ns() < until) {
        if (!is_led_.load(std::memory_order_relaxed) && !is_led_.exchange(true, std::memory_order_acquire)) return true;
        relax_processor();
    }
    return false;
}

// Of the workers without work one leads and looks for more. The others stay away from the mutex until the lead is free,
// for longest_lead_ns at most.
void staging_scheduler::serve(worker as, const staged_progress *one, bool (*is_over)(void *user), void *user) noexcept {
    lock held = acquire();
    const bool stays = as != worker::helper; // a server stays while there is work, if no other server does
    awake_ += stays;
    std::uint64_t idle_since = 0, announced = announced_, unserved_since = 0;
    bool leads = false;
    const auto give_up_lead = [&]() noexcept {
        if (std::exchange(leads, false)) is_led_.store(false, std::memory_order_release);
    };
    while (!is_over(user)) {
        const std::uint64_t now = clock_ns();
        if (const task found = find_task(now, one, stays); found.launch) {
            if (std::exchange(is_watchdog_asleep_, false)) inspection_.notify_one();
            if (idle_ + called_ == 0 && asleep_ != 0 && wants_another(*found.launch)) wake(1);
            at_channels_ += stays;
            unlock(held);
            give_up_lead();
            serve_channel(*found.launch, found.block, is_over, user);
            lock_again(held);
            at_channels_ -= stays;
            complete(found);
            idle_since = unserved_since = 0;
            continue;
        }
        if (stays || servers() != 0 || !has_work())
            unserved_since = 0;
        else if (!unserved_since)
            unserved_since = now;
        else if (now - unserved_since >= patience_without_servers_ns) {
            unserved_since = now;
            is_server_wanted_ = true; // for other copies, which the helper's own may be behind
            inspection_.notify_one();
        }
        if (!idle_since || announced != announced_) {
            idle_since = now;
            announced = announced_;
        }
        const std::uint64_t idle_ns = now - idle_since;
        const std::uint64_t patience =
            !launches_.has(launch_state::running) ? idle_patience_ns : idle_patience_running_ns;
        if (idle_ns < patience && (as != worker::visitor || has_work())) {
            idle_ += stays;
            unlock(held);
            if (leads)
                for (int i = 0; i < pauses_between_looks; ++i)
                    relax_processor();
            else
                leads = wait_for_lead(is_over, user, now + std::min(patience - idle_ns, longest_lead_ns));
            lock_again(held);
            idle_ -= stays;
            continue;
        }
        give_up_lead();
        if (!stays || (has_work() && awake_ - at_channels_ == 1)) {
            // The longer nothing has come, the less a delay in seeing it matters.
            constexpr std::uint64_t shortest_ns = 20'000, longest_ns = 250'000, share = 32;
            unlock(held);
            rest_for(std::clamp(idle_ns / share, shortest_ns, longest_ns));
            lock_again(held);
            continue;
        }
        if (as == worker::visitor || (as == worker::spare && are_spares_to_leave_)) break;
        sleep(held);
        idle_since = 0;
    }
    give_up_lead();
    awake_ -= stays;
    unlock(held);
}

} // namespace ferry
