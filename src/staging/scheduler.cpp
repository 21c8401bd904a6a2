#include "staging/scheduler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/threads.h"

namespace ferry {

namespace {

using state = staging_launch::state;

// How long a worker stays awake without work: about as long as waking it takes. While launches are running it stays
// awake longer, because the next chunk comes soon.
constexpr std::uint64_t idle_patience_ns = 50'000, idle_patience_under_way_ns = 1'000'000;
constexpr int pauses_between_looks = 32; // some microseconds
// After this time without a look of its own, a worker no longer relies on the leader, which may not be running.
constexpr std::uint64_t longest_lead_ns = 100'000;

// A chunk takes some 0.1 ms. A thread that the system has suspended takes a few ms. If such a thread is taken for
// stuck, it loses idle slots, which it gets again.
constexpr std::uint64_t stuck_after_ns = 4'000'000;
constexpr std::uint64_t between_inspections_ns = 2'000'000;
// How long the watchdog waits before it sleeps and the spares leave. Starting them again costs some 50 us.
constexpr std::uint64_t calm_patience_ns = 100'000'000;
// How long a helper waits, with work but without servers, before it asks for one more server.
constexpr std::uint64_t patience_without_servers_ns = 1'000'000;

// Returns whether the launch has work for one more worker.
bool wants_another(const staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
        const staging_channel &channel = launch.channels[block];
        if (channel.is_taken) continue;
        if (has_arrived(launch, block) ||
            (has_room(launch, channel) && (channel.idle_count != 0 || launch.ring->free_count != 0)))
            return true;
    }
    return false;
}

void report_end(staging_launch &launch) noexcept {
    if (staged_progress *const watch = std::exchange(launch.watch, nullptr))
        watch->launches_left.fetch_sub(1, std::memory_order_release);
}

} // namespace

std::atomic<std::uint64_t> copies_in_flight::of_all_ = 0;

// ---- The mutex

// Spins at first: threads hold the mutex for less than a microsecond at a time. A thread that slept for the mutex would
// be late, and the holder would have to wake it.
void staging_scheduler::lock_again(lock &held) noexcept {
    constexpr int patience = 200; // some microseconds
    for (int i = 0; i < patience; ++i) {
        if (held.try_lock()) return;
        relax_processor();
    }
    held.lock();
}

staging_scheduler::lock staging_scheduler::acquire() noexcept {
    lock held(mutex_, std::defer_lock);
    lock_again(held);
    return held;
}

// ---- Launches

void staging_scheduler::add(staging_launch &made) noexcept {
    const lock held = acquire();
    rest(made);
}

void staging_scheduler::rest(staging_launch &launch) noexcept {
    launch.at = state::unused;
    unused_.push_front(launch);
    ++unused_count_;
}

// Running launches with stuck workers do not count: a stuck worker goes on with its copy when it can, and nobody has to
// look for that.
bool staging_scheduler::has_work() const noexcept {
    if (!expected_.is_empty()) return true;
    if (!is_any_stuck_) return !under_way_.is_empty();
    for (const staging_launch *launch = under_way_.first(); launch; launch = launch->next)
        if (launch->stuck == 0) return true;
    return false;
}

staging_launch *staging_scheduler::take(std::uint64_t count, bool is_captured) noexcept {
    const lock held = acquire();
    if (unused_count_ < count) recycle();
    if (unused_count_ < count) return nullptr;
    staging_launch *taken = nullptr;
    unused_count_ -= count;
    (is_captured ? captured_ : pending_) += count;
    for (; count != 0; --count) {
        staging_launch &launch = *unused_.pop();
        launch.at = state::taken;
        launch.is_captured = is_captured;
        launch.is_lost = false;
        launch.runs_expected = 0;
        ++launch.use;
        launch.next_launch = std::exchange(taken, &launch);
    }
    return taken;
}

void staging_scheduler::recycle() noexcept {
    for (staging_launch *next = leaving_.first(); next;) {
        staging_launch &launch = *next;
        next = launch.next;
        if (!has_left(launch)) continue;
        leaving_.remove(launch);
        --leaving_count_;
        rest(launch);
    }
}

void staging_scheduler::release(staging_launch &launch, bool will_be_expected) noexcept {
    const lock held = acquire();
    if (launch.is_lost) return;
    (launch.is_captured ? captured_ : pending_) -= 1;
    report_end(launch);
    if (launch.at == state::expected) {
        expected_.remove(launch);
        --ahead_;
    } else if (will_be_expected) {
        launch.at = state::given_back;
        return;
    }
    rest(launch);
}

void staging_scheduler::keep(staging_launch &launch, std::uint64_t use) noexcept {
    const lock held = acquire();
    if (launch.use != use || launch.at != state::taken) return; // it has been announced already, or is over
    launch.at = state::launched;
    launched_.push_back(launch);
}

void staging_scheduler::release(staging_launch &first) noexcept {
    const lock held = acquire();
    for (staging_launch *next = &first; next;) {
        staging_launch &launch = *next;
        next = launch.next_launch;
        if (launch.is_lost) continue;
        captured_ -= launch.at != state::given_back;
        if (launch.at == state::under_way) { // only for a moment more
            pending_ -= launch.runs_expected - 1;
            launch.runs_expected = 1;
            launch.is_captured = false;
            continue;
        }
        // The expected runs do not come: the kernel was disabled.
        if (launch.at == state::expected) {
            expected_.remove(launch);
            --ahead_;
            pending_ -= launch.runs_expected;
        }
        if (launch.at == state::launched) launched_.remove(launch);
        launch.at = state::leaving;
        leaving_.push_back(launch);
        ++leaving_count_;
    }
}

void staging_scheduler::expect_one(staging_launch &launch) noexcept {
    if (launch.at == state::given_back) {
        if (!launch.is_captured) rest(launch); // a captured launch may be announced again
        return;
    }
    if (launch.is_lost) return;
    if (launch.is_captured) pending_ += 1;
    ++launch.runs_expected;
    ++announced_;
    if (launch.at == state::launched) launched_.remove(launch);
    if (launch.at == state::taken || launch.at == state::launched) {
        launch.at = state::expected;
        expected_.push_back(launch);
        ++ahead_;
    }
}

// Wakes a server to look for work, unless one is idle or called. A server that is awake but not idle is at a copy, or
// does not look for a while.
void staging_scheduler::wake_watcher() noexcept {
    if (idle_ + called_ == 0) wake(1);
}

void staging_scheduler::expect(staging_launch &launch) noexcept {
    lock held = acquire();
    expect_one(launch);
    wake_watcher();
    unlock(held);
}

void staging_scheduler::expect_all(staging_launch &first) noexcept {
    lock held = acquire();
    for (staging_launch *launch = &first; launch; launch = launch->next_launch)
        expect_one(*launch);
    wake_watcher();
    unlock(held);
}

void staging_scheduler::begin_run(staging_launch &launch) noexcept {
    expected_.remove(launch);
    under_way_.push_back(launch);
    launch.at = state::under_way;
    launch.next_chunk = launch.first_chunk;
    launch.chunks_left = launch.end_chunk - launch.first_chunk;
    launch.bytes_done = 0;
    launch.stuck = 0;
    ++launch.ring->copies;
    launch.ring->share_out();
    const std::uint32_t helpers = launch.blocks - 1, awake = idle_ + called_;
    if (helpers > awake) wake(helpers - awake);
}

void staging_scheduler::end_run(staging_launch &launch) noexcept {
    under_way_.remove(launch);
    --ahead_;
    --launch.ring->copies;
    launch.ring->share_out();
}

void staging_scheduler::look_for_arrivals(std::uint64_t now) noexcept {
    looked_ns_ = now;
    for (staging_launch *next = expected_.first(); next;) {
        staging_launch &launch = *next;
        next = launch.next;
        if (has_come(launch)) begin_run(launch);
    }
}

// ---- Slots

void staging_scheduler::add_slots(staging_buffers &ring, staged_slot *first, std::uint32_t count) noexcept {
    const lock held = acquire();
    for (std::uint32_t i = 0; i < count; ++i)
        ring.give(first[i]);
    ring.count += count;
    ring.share_out();
}

bool staging_scheduler::hold(const staging_buffers &ring) noexcept {
    const lock held = acquire();
    holds_ += ring.count != 0;
    return ring.count != 0;
}

void staging_scheduler::let_go() noexcept {
    const lock held = acquire();
    --holds_;
}

bool staging_scheduler::take_slots(staging_buffers &ring, bool first_lot) noexcept {
    const lock held = acquire();
    collect_lost_slots();
    const std::uint32_t wanted = ring.used[first_lot ? 0 : 1];
    const auto is_wanted = [&](const staged_slot &slot) noexcept { return slot.is_of_first_lot == first_lot; };
    std::uint32_t found = 0;
    for (const staged_slot *slot = ring.free.first(); slot; slot = slot->next)
        found += is_wanted(*slot);
    if (found != wanted || (first_lot && (pending_ || captured_ || holds_))) return false;
    for (staged_slot *next = ring.free.first(); next;) {
        staged_slot &slot = *next;
        next = slot.next;
        if (is_wanted(slot)) ring.free.remove(slot);
    }
    ring.free_count -= found;
    ring.count -= found;
    ring.share_out();
    return true;
}

bool staging_scheduler::supply(staging_launch &launch, staging_channel &channel) noexcept {
    staging_buffers &ring = *launch.ring;
    if (!lost_.is_empty()) collect_lost_slots();
    while (channel.slots() < slots_each(launch) && launch.held < std::max(1U, ring.share.load())) {
        staged_slot *const taken = ring.take();
        if (!taken) break;
        ++launch.held;
        channel.idle[channel.idle_count++] = taken;
    }
    return channel.idle_count != 0;
}

// Gives back the channel's idle slots that the launch has no use for or that are beyond its share.
bool staging_scheduler::give_back_slots(staging_launch &launch, staging_channel &channel) noexcept {
    staging_buffers &ring = *launch.ring;
    const std::uint32_t before = channel.idle_count;
    const bool is_over = launch.is_lost || !launch.has_chunks();
    while (channel.idle_count != 0 && (is_over || launch.held > ring.share || channel.slots() > slots_each(launch))) {
        --launch.held;
        ring.give(*channel.idle[--channel.idle_count]);
    }
    return channel.idle_count != before;
}

// ---- A run

bool staging_scheduler::may_go_on(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.channels[block];
    if (channel.is_taken) return false;
    look_at(launch, block);
    const bool gave = give_back_slots(launch, channel); // other launches get these slots first
    return has_arrived(launch, block) || (!gave && has_room(launch, channel) && supply(launch, channel));
}

bool staging_scheduler::choose_lane(staging_launch &launch, std::uint32_t &block) noexcept {
    for (std::uint32_t i = 0; i < launch.blocks; ++i) {
        block = (launch.next_block + i) % launch.blocks;
        if (!may_go_on(launch, block)) continue;
        launch.next_block = block + 1;
        return true;
    }
    return false;
}

bool staging_scheduler::end_if_done(staging_launch &launch) noexcept {
    if (launch.busy != 0 || launch.chunks_left.load(std::memory_order_acquire) != 0) return false;
    for (std::uint32_t block = 0; block < launch.blocks; ++block)
        give_back_slots(launch, launch.channels[block]);
    report_end(launch); // first: a thread that waits for the stream may take the end of the kernel for the copy's end
    tell_end(launch);
    end_run(launch);
    --launch.runs_expected;
    pending_ -= 1;
    if (!launch.is_captured) {
        launch.at = state::leaving;
        leaving_.push_back(launch);
        ++leaving_count_;
    } else if (launch.runs_expected != 0) {
        launch.at = state::expected;
        expected_.push_back(launch);
        ++ahead_;
    } else {
        launch.at = state::launched;
        launched_.push_back(launch);
    }
    return true;
}

bool staging_scheduler::take_task(staging_launch &launch, bool is_server, task &found) noexcept {
    std::uint32_t block = 0;
    const bool is_chosen = choose_lane(launch, block);
    if (!is_chosen && end_if_done(launch)) return false;
    under_way_.remove(launch); // the launch has had its turn
    under_way_.push_back(launch);
    if (!is_chosen) return false;
    staging_channel &channel = launch.channels[block];
    channel.is_taken = true;
    channel.is_by_server = is_server;
    ++launch.busy;
    ++launch.ring->at_channels;
    found = {&launch, block};
    return true;
}

// A launch with stuck workers gets another worker only when no other launch has work. It never gets the last free
// server. A worker that serves only one copy (`one`) looks at no other copy, and may take up its own at any time.
staging_scheduler::task staging_scheduler::find_task(std::uint64_t now, const staged_progress *one,
                                                     bool is_server) noexcept {
    // While launches are running, it is enough to look at the expected ones now and then.
    constexpr std::uint64_t between_looks_ns = 10'000;
    if (under_way_.is_empty() || now - looked_ns_ >= between_looks_ns) look_for_arrivals(now);
    task found;
    for (const bool may_be_stuck : {false, true}) {
        if (may_be_stuck && (!is_any_stuck_ || (!one && servers() < stuck_ + 2))) break;
        staging_launch *const last = under_way_.last();
        for (staging_launch *next = under_way_.first(); next;) {
            staging_launch &launch = *next;
            next = &launch == last ? nullptr : launch.next;
            if ((launch.stuck != 0) != may_be_stuck || (one && launch.watch != one)) continue;
            if (take_task(launch, is_server, found)) return found;
        }
    }
    return found;
}

// Serves the channel as long as the worker has nothing better to do.
void staging_scheduler::attend(staging_launch &launch, std::uint32_t block, bool (*is_over)(void *user),
                               void *user) const noexcept {
    constexpr std::uint64_t turn = std::uint64_t{1} << 20; // bytes, while other launches are expected or running
    constexpr std::uint64_t patience_with_block_ns = 20'000;
    constexpr std::uint32_t enough = 2; // messages for a block, while other blocks have no worker
    const staging_channel &channel = launch.channels[block];
    std::uint64_t moved = 0, idle_since = 0;
    while (!launch.is_lost.load(std::memory_order_relaxed)) {
        const std::uint64_t bytes = advance(launch, block);
        moved += bytes;
        if (is_over(user)) return;
        const bool has_chunks = launch.has_chunks();
        const bool are_all_attended = launch.busy.load(std::memory_order_relaxed) == launch.blocks;
        if (moved >= turn && ahead_.load(std::memory_order_relaxed) > 1) return;
        if (channel.idle_count != 0 && is_over_share(launch, channel)) return;
        if (has_chunks && !are_all_attended && channel.told - channel.done >= enough) return;
        if (has_chunks && channel.slots() < slots_each(launch) &&
            launch.ring->free_count.load(std::memory_order_relaxed) != 0)
            return;
        if (bytes != 0) {
            idle_since = 0;
            continue;
        }
        if (!has_chunks && (launch.is_to_device() || channel.told == channel.done)) return;
        if (!are_all_attended || channel.slots() == 0) return;
        const std::uint64_t now = clock_ns();
        if (!idle_since) idle_since = now;
        if (now - idle_since > patience_with_block_ns) return;
        relax_processor();
    }
}

void staging_scheduler::complete(const task &done) noexcept {
    staging_launch &launch = *done.launch;
    staging_channel &channel = launch.channels[done.block];
    channel.is_taken = false;
    if (std::exchange(channel.is_stuck, false)) {
        --launch.stuck;
        stuck_ -= channel.is_by_server;
    }
    --launch.ring->at_channels;
    const bool are_all = --launch.busy == 0;
    if (launch.is_lost) {
        if (!are_all) return;
        losing_.remove(launch);
        end_lost(launch);
        return;
    }
    give_back_slots(launch, launch.channels[done.block]);
    end_if_done(launch);
}

// ---- Workers

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
            at_lanes_ += stays;
            unlock(held);
            give_up_lead();
            attend(*found.launch, found.block, is_over, user);
            lock_again(held);
            at_lanes_ -= stays;
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
        const std::uint64_t patience = under_way_.is_empty() ? idle_patience_ns : idle_patience_under_way_ns;
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
        if (!stays || (has_work() && awake_ - at_lanes_ == 1)) {
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

// ---- The watchdog

// Takes the idle slots out of the channels of a launch with stuck workers, if other launches may want them.
void staging_scheduler::reclaim_slots(staging_launch &launch) noexcept {
    if (launch.ring->copies < 2) return;
    for (std::uint32_t block = 0; block < launch.blocks; ++block) {
        staging_channel &channel = launch.channels[block];
        if (channel.is_taken && !channel.try_to_enter()) continue;
        look_at(launch, block);
        for (; channel.idle_count != 0; --launch.held)
            launch.ring->give(*channel.idle[--channel.idle_count]);
        if (channel.is_taken) channel.leave();
    }
}

bool staging_scheduler::inspect(std::uint64_t now, std::uint32_t enough) noexcept {
    lock held = acquire();
    stuck_ = 0;
    is_any_stuck_ = false;
    for (const chain<staging_launch> *const launches : {&under_way_, &losing_})
        for (staging_launch *launch = launches->first(); launch; launch = launch->next) {
            launch->stuck = 0;
            for (std::uint32_t block = 0; block < launch->blocks; ++block) {
                staging_channel &channel = launch->channels[block];
                const std::uint32_t visit = channel.visit.load(std::memory_order_relaxed);
                if (!channel.is_taken || !(visit & staging_channel::away) || visit != channel.last_visit) {
                    channel.last_visit = visit;
                    channel.last_visit_ns = now;
                }
                channel.is_stuck = now - channel.last_visit_ns >= stuck_after_ns;
                launch->stuck += channel.is_stuck;
                stuck_ += channel.is_stuck && channel.is_by_server;
            }
            is_any_stuck_ |= launch->stuck != 0;
        }
    if (is_any_stuck_)
        for (staging_launch *launch = under_way_.first(); launch; launch = launch->next)
            if (launch->stuck != 0) reclaim_slots(*launch);
    if (is_any_stuck_ || is_server_wanted_) calm_since_ns_ = now;
    if (ahead_ != 0) quiet_since_ns_ = now;
    // A stuck server may have been the one that looked for work.
    const bool is_unattended = is_any_stuck_ && awake_ == at_lanes_ && called_ == 0 && has_work();
    if (is_unattended) wake(1);
    const bool is_short = is_unattended && called_ == 0 && servers() - stuck_ < enough;
    const bool is_wanted = std::exchange(is_server_wanted_, false) || is_short;
    are_spares_to_leave_ = !is_wanted && now - calm_since_ns_ >= calm_patience_ns;
    unlock(held);
    return is_wanted;
}

const staging_buffers *staging_scheduler::starved_ring() noexcept {
    const lock held = acquire();
    for (const staging_launch *launch = under_way_.first(); launch; launch = launch->next)
        if (launch->stuck != 0 && !launch->is_to_device() && launch->ring->copies > 1 && launch->ring->free_count == 0)
            return launch->ring;
    return nullptr;
}

bool staging_scheduler::evacuate(staged_parcel &parcel) noexcept {
    const lock held = acquire();
    for (staging_launch *launch = under_way_.first(); launch; launch = launch->next) {
        if (launch->stuck == 0 || launch->is_to_device() || launch->ring->copies < 2 || launch->ring->free_count != 0)
            continue;
        if (parcel.room < launch->ring->slot_size + slot_margin) continue;
        for (std::uint32_t block = 0; block < launch->blocks; ++block) {
            staging_channel &channel = launch->channels[block];
            if (channel.is_taken && !channel.try_to_enter()) continue;
            const bool is_moved = move_to_parcel(*launch, block, parcel);
            if (is_moved) {
                --launch->held;
                launch->ring->give(*channel.idle[--channel.idle_count]);
            }
            if (channel.is_taken) channel.leave();
            if (is_moved) return true;
        }
    }
    return false;
}

void staging_scheduler::wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept {
    lock held = acquire();
    if (is_over || is_server_wanted_) return;
    const std::uint64_t now = clock_ns();
    const bool is_quiet = ahead_ == 0 && now - quiet_since_ns_ >= calm_patience_ns;
    if (is_quiet && has_spares && are_spares_to_leave_) {
        wake(asleep_);
        unlock(held);
        lock_again(held);
    }
    if (!is_quiet || has_spares) {
        inspection_.wait_for(held, std::chrono::nanoseconds(between_inspections_ns));
    } else {
        is_watchdog_asleep_ = true;
        inspection_.wait(held, [&] { return !is_watchdog_asleep_ || is_server_wanted_ || is_over; });
        is_watchdog_asleep_ = false;
        quiet_since_ns_ = clock_ns();
    }
    unlock(held);
}

staging_scheduler::outlook staging_scheduler::look_ahead() noexcept {
    const lock held = acquire();
    recycle();
    return {pending_, leaving_count_, captured_};
}

// A copy lasts as long as its last launch, so only that launch counts. Captured launches all count: they are announced
// one after the other, as they come.
staging_scheduler::load staging_scheduler::in_flight() noexcept {
    const lock held = acquire();
    load found;
    for (const chain<staging_launch> *const launches : {&launched_, &expected_, &under_way_})
        for (const staging_launch *launch = launches->first(); launch; launch = launch->next) {
            const std::uint32_t runs = launch->is_captured ? launch->runs_expected : 1;
            const std::uint64_t bytes =
                launch->cut->bytes_before(launch->end_chunk) - launch->cut->bytes_before(launch->first_chunk);
            found.copies += launch->is_captured || !launch->next_launch ? runs : 0;
            found.bytes += runs * bytes - (launch->at == state::under_way ? launch->bytes_done.load() : 0);
            found.busy += launch->busy;
        }
    return found;
}

// ---- The end of a context

const tracked_context *staging_scheduler::context_after(const tracked_context *one) noexcept {
    const lock held = acquire();
    const tracked_context *found = nullptr;
    const std::less<> is_before;
    for (const chain<staging_launch> *const launches : {&under_way_, &expected_, &launched_, &leaving_})
        for (const staging_launch *launch = launches->first(); launch; launch = launch->next)
            if (is_before(one, launch->context) && (!found || is_before(launch->context, found)))
                found = launch->context;
    return found;
}

// The records of lost launches are not used again, because a block may still come.
void staging_scheduler::lose(const tracked_context &context, std::int32_t status) noexcept {
    const lock held = acquire();
    recycle();
    for (chain<staging_launch> *const launches : {&under_way_, &expected_, &launched_, &leaving_})
        for (staging_launch *next = launches->first(); next;) {
            staging_launch &launch = *next;
            next = launch.next;
            if (launch.context != &context) continue;
            if (launches == &under_way_)
                end_run(launch);
            else
                launches->remove(launch);
            if (launches == &expected_) --ahead_;
            const bool has_all_bytes = launches == &leaving_;
            leaving_count_ -= has_all_bytes;
            launch.at = state::lost;
            launch.is_lost = true;
            launch.loss = status;
            if (has_all_bytes) continue;
            if (launch.busy == 0)
                end_lost(launch);
            else
                losing_.push_back(launch);
        }
}

// No worker is at the launch any more, so no more messages are published for its blocks.
void staging_scheduler::end_lost(staging_launch &launch) noexcept {
    pending_ -= launch.is_captured ? launch.runs_expected : 1;
    captured_ -= launch.is_captured;
    launch.runs_expected = 0;
    abort_blocks(launch);
    launch.lost_ns = clock_ns();
    lost_.push_back(launch);
    collect_lost_slots();
    if (launch.watch) launch.watch->status.store(launch.loss, std::memory_order_relaxed);
    report_end(launch);
}

// Gives the slots of a lost launch to others once its blocks have completed all published messages. The blocks do so
// soon or, in a dead context, never, so there is a limit.
void staging_scheduler::collect_lost_slots() noexcept {
    constexpr std::uint64_t longest_ns = 100'000'000; // enough for a few chunks
    for (staging_launch *next = lost_.first(); next;) {
        staging_launch &launch = *next;
        next = launch.next;
        if (is_at_work(launch) && clock_ns() - launch.lost_ns < longest_ns) continue;
        for (std::uint32_t block = 0; block < launch.blocks; ++block) {
            staging_channel &channel = launch.channels[block];
            take_back_all(channel);
            while (channel.parcels)
                free_parcel(*launch.ring->parcel_memory, std::exchange(channel.parcels, channel.parcels->next));
            give_back_slots(launch, channel);
        }
        lost_.remove(launch);
    }
}

} // namespace ferry
