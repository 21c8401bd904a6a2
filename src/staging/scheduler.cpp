#include "staging/scheduler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "base/threads.h"

namespace ferry {

namespace {

using state = staged_job::state;

// That a thread stays awake without work: about what waking takes. While copies are under way, rather longer: the next
// chunk is soon there.
constexpr std::uint64_t idle_patience_ns = 50'000, idle_patience_under_way_ns = 1'000'000;
constexpr int pauses_between_looks = 32;           // some microseconds
constexpr std::uint64_t longest_lead_ns = 100'000; // without a look: the leader may not be running

// A chunk takes some 0.1 ms, and a thread that the system has suspended a few ms. Taken for stuck by mistake it loses
// idle slots, which it gets again.
constexpr std::uint64_t stuck_after_ns = 4'000'000;
constexpr std::uint64_t between_inspections_ns = 2'000'000;
// Before the watchdog sleeps and spares leave: to start them again costs some 50 us.
constexpr std::uint64_t calm_patience_ns = 100'000'000;
// For who waits for a copy of its own that is not served, before one more server is asked for.
constexpr std::uint64_t patience_without_servers_ns = 1'000'000;

// One more thread has something to do there.
bool wants_another(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        const staged_lane &lane = job.lanes[block];
        if (lane.is_taken) continue;
        if (has_arrived(job, block) || (has_room(job, lane) && (lane.idle_count != 0 || job.ring->free_count != 0)))
            return true;
    }
    return false;
}

void report_end(staged_job &job) noexcept {
    if (staged_watch *const watch = std::exchange(job.watch, nullptr))
        watch->launches_left.fetch_sub(1, std::memory_order_release);
}

} // namespace

std::atomic<std::uint64_t> copies_in_flight::of_all_ = 0;

// ---- The mutex

// Held for less than a microsecond at a time. Who slept for it would be late, and the holder's to wake.
void staged_board::lock_again(lock &held) noexcept {
    constexpr int patience = 200; // some microseconds
    for (int i = 0; i < patience; ++i) {
        if (held.try_lock()) return;
        relax_processor();
    }
    held.lock();
}

staged_board::lock staged_board::acquire() noexcept {
    lock held(mutex_, std::defer_lock);
    lock_again(held);
    return held;
}

// ---- Jobs

void staged_board::add(staged_job &made) noexcept {
    const lock held = acquire();
    rest(made);
}

void staged_board::rest(staged_job &job) noexcept {
    job.at = state::unused;
    unused_.push_front(job);
    ++unused_count_;
}

// A thread that is stuck goes on with its copy when it can: nobody has to look after that.
bool staged_board::has_work() const noexcept {
    if (!expected_.is_empty()) return true;
    if (!is_any_stuck_) return !under_way_.is_empty();
    for (const staged_job *job = under_way_.first(); job; job = job->next)
        if (job->stuck == 0) return true;
    return false;
}

staged_job *staged_board::take(std::uint64_t count, bool is_captured) noexcept {
    const lock held = acquire();
    if (unused_count_ < count) recycle();
    if (unused_count_ < count) return nullptr;
    staged_job *taken = nullptr;
    unused_count_ -= count;
    (is_captured ? captured_ : pending_) += count;
    for (; count != 0; --count) {
        staged_job &job = *unused_.pop();
        job.at = state::taken;
        job.is_captured = is_captured;
        job.is_lost = false;
        job.runs_expected = 0;
        ++job.use;
        job.next_launch = std::exchange(taken, &job);
    }
    return taken;
}

void staged_board::recycle() noexcept {
    for (staged_job *next = leaving_.first(); next;) {
        staged_job &job = *next;
        next = job.next;
        if (!has_left(job)) continue;
        leaving_.remove(job);
        --leaving_count_;
        rest(job);
    }
}

void staged_board::give_back(staged_job &job, bool will_be_expected) noexcept {
    const lock held = acquire();
    if (job.is_lost) return;
    (job.is_captured ? captured_ : pending_) -= 1;
    report_end(job);
    if (job.at == state::expected) {
        expected_.remove(job);
        --ahead_;
    } else if (will_be_expected) {
        job.at = state::given_back;
        return;
    }
    rest(job);
}

void staged_board::keep(staged_job &job, std::uint64_t use) noexcept {
    const lock held = acquire();
    if (job.use != use || job.at != state::taken) return; // it is expected already, or over
    job.at = state::launched;
    launched_.push_back(job);
}

void staged_board::release(staged_job &first) noexcept {
    const lock held = acquire();
    for (staged_job *next = &first; next;) {
        staged_job &job = *next;
        next = job.next_launch;
        if (job.is_lost) continue;
        captured_ -= job.at != state::given_back;
        if (job.at == state::under_way) { // for a moment
            pending_ -= job.runs_expected - 1;
            job.runs_expected = 1;
            job.is_captured = false;
            continue;
        }
        // Expected runs do not come: their kernel was disabled.
        if (job.at == state::expected) {
            expected_.remove(job);
            --ahead_;
            pending_ -= job.runs_expected;
        }
        if (job.at == state::launched) launched_.remove(job);
        job.at = state::leaving;
        leaving_.push_back(job);
        ++leaving_count_;
    }
}

void staged_board::expect_one(staged_job &job) noexcept {
    if (job.at == state::given_back) {
        if (!job.is_captured) rest(job); // those may be expected again and again
        return;
    }
    if (job.is_lost) return;
    if (job.is_captured) pending_ += 1;
    ++job.runs_expected;
    ++announced_;
    if (job.at == state::launched) launched_.remove(job);
    if (job.at == state::taken || job.at == state::launched) {
        job.at = state::expected;
        expected_.push_back(job);
        ++ahead_;
    }
}

// Who is awake, but not idle, is at a copy or does not look for a while.
void staged_board::wake_watcher() noexcept {
    if (idle_ + called_ == 0) wake(1);
}

void staged_board::expect(staged_job &job) noexcept {
    lock held = acquire();
    expect_one(job);
    wake_watcher();
    unlock(held);
}

void staged_board::expect_all(staged_job &first) noexcept {
    lock held = acquire();
    for (staged_job *job = &first; job; job = job->next_launch)
        expect_one(*job);
    wake_watcher();
    unlock(held);
}

void staged_board::begin_run(staged_job &job) noexcept {
    expected_.remove(job);
    under_way_.push_back(job);
    job.at = state::under_way;
    job.next_chunk = job.first_chunk;
    job.chunks_left = job.end_chunk - job.first_chunk;
    job.landed = 0;
    job.stuck = 0;
    ++job.ring->copies;
    job.ring->share_out();
    const std::uint32_t helpers = job.blocks - 1, awake = idle_ + called_;
    if (helpers > awake) wake(helpers - awake);
}

void staged_board::end_run(staged_job &job) noexcept {
    under_way_.remove(job);
    --ahead_;
    --job.ring->copies;
    job.ring->share_out();
}

void staged_board::look_for_arrivals(std::uint64_t now) noexcept {
    looked_ns_ = now;
    for (staged_job *next = expected_.first(); next;) {
        staged_job &job = *next;
        next = job.next;
        if (has_come(job)) begin_run(job);
    }
}

// ---- Slots

void staged_board::add_slots(staged_ring &ring, staged_slot *first, std::uint32_t count) noexcept {
    const lock held = acquire();
    for (std::uint32_t i = 0; i < count; ++i)
        ring.give(first[i]);
    ring.count += count;
    ring.share_out();
}

bool staged_board::hold(const staged_ring &ring) noexcept {
    const lock held = acquire();
    holds_ += ring.count != 0;
    return ring.count != 0;
}

void staged_board::let_go() noexcept {
    const lock held = acquire();
    --holds_;
}

bool staged_board::take_slots(staged_ring &ring, bool first_lot) noexcept {
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

bool staged_board::supply(staged_job &job, staged_lane &lane) noexcept {
    staged_ring &ring = *job.ring;
    if (!lost_.is_empty()) collect_lost_slots();
    while (lane.slots() < slots_each(job) && job.held < std::max(1U, ring.share.load())) {
        staged_slot *const taken = ring.take();
        if (!taken) break;
        ++job.held;
        lane.idle[lane.idle_count++] = taken;
    }
    return lane.idle_count != 0;
}

// What it has no use for, and what others have a right to.
bool staged_board::give_back_slots(staged_job &job, staged_lane &lane) noexcept {
    staged_ring &ring = *job.ring;
    const std::uint32_t before = lane.idle_count;
    const bool is_over = job.is_lost || !job.has_chunks();
    while (lane.idle_count != 0 && (is_over || job.held > ring.share || lane.slots() > slots_each(job))) {
        --job.held;
        ring.give(*lane.idle[--lane.idle_count]);
    }
    return lane.idle_count != before;
}

// ---- A run

bool staged_board::may_go_on(staged_job &job, std::uint32_t block) noexcept {
    staged_lane &lane = job.lanes[block];
    if (lane.is_taken) return false;
    look_at(job, block);
    const bool gave = give_back_slots(job, lane); // others come first
    return has_arrived(job, block) || (!gave && has_room(job, lane) && supply(job, lane));
}

bool staged_board::choose_lane(staged_job &job, std::uint32_t &block) noexcept {
    for (std::uint32_t i = 0; i < job.blocks; ++i) {
        block = (job.next_block + i) % job.blocks;
        if (!may_go_on(job, block)) continue;
        job.next_block = block + 1;
        return true;
    }
    return false;
}

bool staged_board::end_if_done(staged_job &job) noexcept {
    if (job.busy != 0 || job.chunks_left.load(std::memory_order_acquire) != 0) return false;
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        give_back_slots(job, job.lanes[block]);
    report_end(job); // first, as whoever waits for the stream may take that for the end
    tell_end(job);
    end_run(job);
    --job.runs_expected;
    pending_ -= 1;
    if (!job.is_captured) {
        job.at = state::leaving;
        leaving_.push_back(job);
        ++leaving_count_;
    } else if (job.runs_expected != 0) {
        job.at = state::expected;
        expected_.push_back(job);
        ++ahead_;
    } else {
        job.at = state::launched;
        launched_.push_back(job);
    }
    return true;
}

bool staged_board::take_task(staged_job &job, bool is_server, task &found) noexcept {
    std::uint32_t block = 0;
    const bool is_chosen = choose_lane(job, block);
    if (!is_chosen && end_if_done(job)) return false;
    under_way_.remove(job); // it has had its turn
    under_way_.push_back(job);
    if (!is_chosen) return false;
    staged_lane &lane = job.lanes[block];
    lane.is_taken = true;
    lane.is_by_server = is_server;
    ++job.busy;
    ++job.ring->at_lanes;
    found = {&job, block};
    return true;
}

// A copy with stuck threads gets another one when no other copy has work, but never the last that is free.
staged_board::task staged_board::find_task(std::uint64_t now, const staged_watch *one, bool is_server) noexcept {
    // While copies are under way a look at those expected now and then is enough.
    constexpr std::uint64_t between_looks_ns = 10'000;
    if (under_way_.is_empty() || now - looked_ns_ >= between_looks_ns) look_for_arrivals(now);
    task found;
    for (const bool may_be_stuck : {false, true}) {
        if (may_be_stuck && (!is_any_stuck_ || (!one && servers() < stuck_ + 2))) break;
        staged_job *const last = under_way_.last();
        for (staged_job *next = under_way_.first(); next;) {
            staged_job &job = *next;
            next = &job == last ? nullptr : job.next;
            if ((job.stuck != 0) != may_be_stuck || (one && job.watch != one)) continue;
            if (take_task(job, is_server, found)) return found;
        }
    }
    return found;
}

// As long as there is nothing better to do.
void staged_board::attend(staged_job &job, std::uint32_t block, bool (*is_over)(void *user),
                          void *user) const noexcept {
    constexpr std::uint64_t turn = std::uint64_t{1} << 20; // bytes, while there are others
    constexpr std::uint64_t patience_with_block_ns = 20'000;
    constexpr std::uint32_t enough = 2; // for a block, while others have less
    const staged_lane &lane = job.lanes[block];
    std::uint64_t moved = 0, idle_since = 0;
    while (!job.is_lost.load(std::memory_order_relaxed)) {
        const std::uint64_t bytes = advance(job, block);
        moved += bytes;
        if (is_over(user)) return;
        const bool has_chunks = job.has_chunks();
        const bool are_all_attended = job.busy.load(std::memory_order_relaxed) == job.blocks;
        if (moved >= turn && ahead_.load(std::memory_order_relaxed) > 1) return;
        if (lane.idle_count != 0 && is_over_share(job, lane)) return;
        if (has_chunks && !are_all_attended && lane.told - lane.done >= enough) return;
        if (has_chunks && lane.slots() < slots_each(job) && job.ring->free_count.load(std::memory_order_relaxed) != 0)
            return;
        if (bytes != 0) {
            idle_since = 0;
            continue;
        }
        if (!has_chunks && (job.is_to_device() || lane.told == lane.done)) return;
        if (!are_all_attended || lane.slots() == 0) return;
        const std::uint64_t now = clock_ns();
        if (!idle_since) idle_since = now;
        if (now - idle_since > patience_with_block_ns) return;
        relax_processor();
    }
}

void staged_board::complete(const task &done) noexcept {
    staged_job &job = *done.job;
    staged_lane &lane = job.lanes[done.block];
    lane.is_taken = false;
    if (std::exchange(lane.is_stuck, false)) {
        --job.stuck;
        stuck_ -= lane.is_by_server;
    }
    --job.ring->at_lanes;
    const bool are_all = --job.busy == 0;
    if (job.is_lost) {
        if (!are_all) return;
        losing_.remove(job);
        end_lost(job);
        return;
    }
    give_back_slots(job, job.lanes[done.block]);
    end_if_done(job);
}

// ---- Threads

void staged_board::sleep(lock &held) noexcept {
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

void staged_board::wake(std::uint64_t count) noexcept {
    const auto called = static_cast<std::uint32_t>(std::min<std::uint64_t>(count, asleep_));
    asleep_ -= called;
    called_ += called;
    uncalled_ += called;
}

// Calls of the system wake, which take microseconds.
void staged_board::unlock(lock &held) noexcept {
    const std::uint32_t uncalled = std::exchange(uncalled_, 0);
    if (uncalled != 0) calls_.fetch_add(1, std::memory_order_relaxed);
    const bool are_all = asleep_ == 0;
    held.unlock();
    if (uncalled > 1 && are_all) return calls_.notify_all();
    for (std::uint32_t i = 0; i < uncalled; ++i)
        calls_.notify_one();
}

void staged_board::wake_all() noexcept {
    lock held = acquire();
    wake(asleep_);
    is_watchdog_asleep_ = false;
    inspection_.notify_one();
    unlock(held);
}

// False where it is over, or nobody gives it up.
bool staged_board::wait_for_lead(bool (*is_over)(void *user), void *user, std::uint64_t until) noexcept {
    while (!is_over(user) && clock_ns() < until) {
        if (!is_led_.load(std::memory_order_relaxed) && !is_led_.exchange(true, std::memory_order_acquire)) return true;
        relax_processor();
    }
    return false;
}

// Of those that find nothing to do one leads, and looks; the others stay away from the mutex until the lead is free.
void staged_board::serve(worker as, const staged_watch *one, bool (*is_over)(void *user), void *user) noexcept {
    lock held = acquire();
    const bool stays = as != worker::helper; // while there is work, if no other does
    awake_ += stays;
    std::uint64_t idle_since = 0, announced = announced_, unserved_since = 0;
    bool leads = false;
    const auto give_up_lead = [&]() noexcept {
        if (std::exchange(leads, false)) is_led_.store(false, std::memory_order_release);
    };
    while (!is_over(user)) {
        const std::uint64_t now = clock_ns();
        if (const task found = find_task(now, one, stays); found.job) {
            if (std::exchange(is_watchdog_asleep_, false)) inspection_.notify_one();
            if (idle_ + called_ == 0 && asleep_ != 0 && wants_another(*found.job)) wake(1);
            at_lanes_ += stays;
            unlock(held);
            give_up_lead();
            attend(*found.job, found.block, is_over, user);
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
            is_server_wanted_ = true; // of other copies, which its own may be behind
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
            // The longer nothing has come, the less it matters when it is seen.
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

// What is idle in lanes of a copy with stuck threads, while others may want it.
void staged_board::reclaim_slots(staged_job &job) noexcept {
    if (job.ring->copies < 2) return;
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        staged_lane &lane = job.lanes[block];
        if (lane.is_taken && !lane.try_to_enter()) continue;
        look_at(job, block);
        for (; lane.idle_count != 0; --job.held)
            job.ring->give(*lane.idle[--lane.idle_count]);
        if (lane.is_taken) lane.leave();
    }
}

bool staged_board::inspect(std::uint64_t now, std::uint32_t enough) noexcept {
    lock held = acquire();
    stuck_ = 0;
    is_any_stuck_ = false;
    for (const chain<staged_job> *const jobs : {&under_way_, &losing_})
        for (staged_job *job = jobs->first(); job; job = job->next) {
            job->stuck = 0;
            for (std::uint32_t block = 0; block < job->blocks; ++block) {
                staged_lane &lane = job->lanes[block];
                const std::uint32_t visit = lane.visit.load(std::memory_order_relaxed);
                if (!lane.is_taken || !(visit & staged_lane::away) || visit != lane.last_visit) {
                    lane.last_visit = visit;
                    lane.last_visit_ns = now;
                }
                lane.is_stuck = now - lane.last_visit_ns >= stuck_after_ns;
                job->stuck += lane.is_stuck;
                stuck_ += lane.is_stuck && lane.is_by_server;
            }
            is_any_stuck_ |= job->stuck != 0;
        }
    if (is_any_stuck_)
        for (staged_job *job = under_way_.first(); job; job = job->next)
            if (job->stuck != 0) reclaim_slots(*job);
    if (is_any_stuck_ || is_server_wanted_) calm_since_ns_ = now;
    if (ahead_ != 0) quiet_since_ns_ = now;
    // Whoever is stuck may have been the one that looked.
    const bool is_unattended = is_any_stuck_ && awake_ == at_lanes_ && called_ == 0 && has_work();
    if (is_unattended) wake(1);
    const bool is_short = is_unattended && called_ == 0 && servers() - stuck_ < enough;
    const bool is_wanted = std::exchange(is_server_wanted_, false) || is_short;
    are_spares_to_leave_ = !is_wanted && now - calm_since_ns_ >= calm_patience_ns;
    unlock(held);
    return is_wanted;
}

const staged_ring *staged_board::starved_ring() noexcept {
    const lock held = acquire();
    for (const staged_job *job = under_way_.first(); job; job = job->next)
        if (job->stuck != 0 && !job->is_to_device() && job->ring->copies > 1 && job->ring->free_count == 0)
            return job->ring;
    return nullptr;
}

bool staged_board::evacuate(staged_parcel &parcel) noexcept {
    const lock held = acquire();
    for (staged_job *job = under_way_.first(); job; job = job->next) {
        if (job->stuck == 0 || job->is_to_device() || job->ring->copies < 2 || job->ring->free_count != 0) continue;
        if (parcel.room < job->ring->slot_size + slot_margin) continue;
        for (std::uint32_t block = 0; block < job->blocks; ++block) {
            staged_lane &lane = job->lanes[block];
            if (lane.is_taken && !lane.try_to_enter()) continue;
            const bool is_moved = move_to_parcel(*job, block, parcel);
            if (is_moved) {
                --job->held;
                job->ring->give(*lane.idle[--lane.idle_count]);
            }
            if (lane.is_taken) lane.leave();
            if (is_moved) return true;
        }
    }
    return false;
}

void staged_board::wait_to_inspect(bool has_spares, const std::atomic<bool> &is_over) noexcept {
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

void staged_board::ask_for_server() noexcept {
    const lock held = acquire();
    is_server_wanted_ = true;
    inspection_.notify_one();
}

staged_board::outlook staged_board::look_ahead() noexcept {
    const lock held = acquire();
    recycle();
    return {pending_, leaving_count_, captured_};
}

// A copy lasts as long as its last launch; captured launches are expected one after the other, as they come.
staged_board::load staged_board::on_the_way() noexcept {
    const lock held = acquire();
    load found;
    for (const chain<staged_job> *const jobs : {&launched_, &expected_, &under_way_})
        for (const staged_job *job = jobs->first(); job; job = job->next) {
            const std::uint32_t runs = job->is_captured ? job->runs_expected : 1;
            const std::uint64_t bytes =
                job->cut->bytes_before(job->end_chunk) - job->cut->bytes_before(job->first_chunk);
            found.copies += job->is_captured || !job->next_launch ? runs : 0;
            found.bytes += runs * bytes - (job->at == state::under_way ? job->landed.load() : 0);
            found.busy += job->busy;
        }
    return found;
}

// ---- The end of a context

const tracked_context *staged_board::context_after(const tracked_context *one) noexcept {
    const lock held = acquire();
    const tracked_context *found = nullptr;
    const std::less<> is_before;
    for (const chain<staged_job> *const jobs : {&under_way_, &expected_, &launched_, &leaving_})
        for (const staged_job *job = jobs->first(); job; job = job->next)
            if (is_before(one, job->context) && (!found || is_before(job->context, found))) found = job->context;
    return found;
}

// Records of what is lost are not used again: a block may still come.
void staged_board::lose(const tracked_context &context, std::int32_t status) noexcept {
    const lock held = acquire();
    recycle();
    for (chain<staged_job> *const jobs : {&under_way_, &expected_, &launched_, &leaving_})
        for (staged_job *next = jobs->first(); next;) {
            staged_job &job = *next;
            next = job.next;
            if (job.context != &context) continue;
            if (jobs == &under_way_)
                end_run(job);
            else
                jobs->remove(job);
            if (jobs == &expected_) --ahead_;
            const bool has_all_bytes = jobs == &leaving_;
            leaving_count_ -= has_all_bytes;
            job.at = state::lost;
            job.is_lost = true;
            job.loss = status;
            if (has_all_bytes) continue;
            if (job.busy == 0)
                end_lost(job);
            else
                losing_.push_back(job);
        }
}

// No thread is at it any more, so nothing more is told to its blocks.
void staged_board::end_lost(staged_job &job) noexcept {
    pending_ -= job.is_captured ? job.runs_expected : 1;
    captured_ -= job.is_captured;
    job.runs_expected = 0;
    abort_blocks(job);
    job.lost_ns = clock_ns();
    lost_.push_back(job);
    collect_lost_slots();
    if (job.watch) job.watch->status.store(job.loss, std::memory_order_relaxed);
    report_end(job);
}

// Others get the slots when the blocks have done all that they were told, which they do soon or, in a dead context, never.
void staged_board::collect_lost_slots() noexcept {
    constexpr std::uint64_t longest_ns = 100'000'000; // for a few chunks
    for (staged_job *next = lost_.first(); next;) {
        staged_job &job = *next;
        next = job.next;
        if (is_at_work(job) && clock_ns() - job.lost_ns < longest_ns) continue;
        for (std::uint32_t block = 0; block < job.blocks; ++block) {
            staged_lane &lane = job.lanes[block];
            take_back_all(lane);
            while (lane.parcels)
                free_parcel(*job.ring->parcel_memory, std::exchange(lane.parcels, lane.parcels->next));
            give_back_slots(job, lane);
        }
        lost_.remove(job);
    }
}

} // namespace ferry
