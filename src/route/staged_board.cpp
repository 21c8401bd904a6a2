#include "route/staged_board.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/threads.h"
#include "route/staged_rows.h"

namespace ferry {

namespace {

using state = staged_job::state;

// ---- What both sides say in a record

constexpr std::uint32_t low_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word); }
constexpr std::uint32_t high_half(std::uint64_t word) noexcept { return static_cast<std::uint32_t>(word >> 32); }

std::uint64_t seen_by(const staged_job &job, std::uint32_t block) noexcept {
    return std::atomic_ref(job.record->seen[block]).load(std::memory_order_acquire);
}

// A block is there for the run that ends next; or has left all that have ended.
bool is_attended(std::uint64_t seen, const staged_job::mailbox &box) noexcept {
    return high_half(seen) == (box.ended << 1 | 1);
}
bool is_left(std::uint64_t seen, const staged_job::mailbox &box) noexcept { return high_half(seen) == box.ended << 1; }

bool has_come(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (is_attended(seen_by(job, block), job.mailboxes[block])) return true;
    return false;
}
bool has_left(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (!is_left(seen_by(job, block), job.mailboxes[block])) return false;
    return true;
}

// Blocks that have not said that they have done all they were told.
bool is_at_work(const staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block)
        if (low_half(seen_by(job, block)) != job.mailboxes[block].told) return true;
    return false;
}

void tell(staged_job &job, std::uint32_t block) noexcept {
    const staged_job::mailbox &box = job.mailboxes[block];
    std::atomic_ref(job.record->mailboxes[block].told)
        .store(std::uint64_t{box.ended} << 32 | box.told, std::memory_order_release);
}

// Gives a slot to the block with the fewest; false where none has room.
bool tell_of(staged_job &job, staged_slot &slot) noexcept {
    std::uint32_t chosen = 0, fewest = kernels::messages_at_once;
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        const staged_job::mailbox &box = job.mailboxes[block];
        if (!box.is_attended || box.told - box.done >= fewest) continue;
        chosen = block;
        fewest = box.told - box.done;
    }
    if (fewest == kernels::messages_at_once) return false;
    staged_job::mailbox &box = job.mailboxes[chosen];
    const std::uint32_t place = box.told % kernels::messages_at_once;
    job.record->mailboxes[chosen].messages[place] = {slot.device_address + slot.chunk.lead - job.device_record,
                                                     slot.chunk.first, slot.chunk.count};
    box.slots[place] = &slot;
    ++box.told;
    tell(job, chosen);
    return true;
}

// Ends the run for all blocks, for those too that have not come yet.
void tell_end(staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        staged_job::mailbox &box = job.mailboxes[block];
        box.ended = (box.ended + 1) & 0x7fffffff;
        box.is_attended = false;
        tell(job, block);
    }
}

bool is_to_device(const staged_job &job) noexcept { return job.cut->box().to_device; }

void perform(const staged_job &job, const staged_slot &slot) noexcept {
    std::byte *const at = slot.host + slot.chunk.lead;
    if (is_to_device(job))
        fill_slot(*job.cut, slot.chunk, at);
    else
        empty_slot(*job.cut, slot.chunk, at);
}

// For one more thread.
bool has_more(const staged_job &job) noexcept {
    if (!is_to_device(job)) return !job.ready.is_empty();
    return job.next_chunk != job.end_chunk && job.ring->free_count != 0;
}

void report_end(staged_job &job) noexcept {
    if (staged_watch *const watch = std::exchange(job.watch, nullptr))
        watch->launches_left.fetch_sub(1, std::memory_order_release);
}

} // namespace

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
    --(job.is_captured ? captured_ : pending_);
    report_end(job);
    if (job.at == state::expected)
        expected_.remove(job);
    else if (will_be_expected) {
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

void staged_board::expect_one(staged_job &job) noexcept {
    if (job.at == state::given_back) {
        if (!job.is_captured) rest(job); // those may be expected again and again
        return;
    }
    if (job.is_lost) return;
    if (job.is_captured) ++pending_;
    ++job.runs_expected;
    ++announced_;
    if (job.at == state::launched) launched_.remove(job);
    if (job.at == state::taken || job.at == state::launched) {
        job.at = state::expected;
        expected_.push_back(job);
    }
}

void staged_board::wake_watcher(lock &held) noexcept {
    const bool wakes = asleep_ && awake_ <= 1; // who may be at a copy, or not look for a while
    held.unlock();
    if (wakes) wake_.notify_one();
}

void staged_board::expect(staged_job &job) noexcept {
    lock held = acquire();
    expect_one(job);
    wake_watcher(held);
}

void staged_board::expect_all(staged_job &first) noexcept {
    lock held = acquire();
    for (staged_job *job = &first; job; job = job->next_launch)
        expect_one(*job);
    if (wakes_all_ && first.end_chunk - first.first_chunk > 1) wake_.notify_all();
    wake_watcher(held);
}

void staged_board::begin_run(staged_job &job) noexcept {
    expected_.remove(job);
    under_way_.push_back(job);
    job.at = state::under_way;
    job.next_chunk = job.first_chunk;
    job.chunks_left = job.end_chunk - job.first_chunk;
    job.landed = 0;
    ++job.ring->copies;
    const std::uint64_t helpers = job.chunks_left - 1;
    if (helpers >= asleep_) return wake_.notify_all();
    for (std::uint64_t i = 0; i < helpers; ++i)
        wake_.notify_one();
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
    return true;
}

// No more than its share while others need them too.
staged_slot *staged_board::take_slot(staged_job &job) noexcept {
    staged_ring &ring = *job.ring;
    if (job.held >= std::max(1u, ring.count / ring.copies)) return nullptr;
    staged_slot *const taken = ring.take();
    if (!taken) return nullptr;
    ++job.held;
    taken->chunk = job.cut->chunk(job.next_chunk++);
    return taken;
}

void staged_board::release(staged_job &job, staged_slot &slot) noexcept {
    --job.held;
    job.ring->give(slot);
}

void staged_board::land(staged_job &job, staged_slot &slot) noexcept {
    job.landed += slot.chunk.bytes();
    if (job.watch) job.watch->landed.fetch_add(slot.chunk.bytes(), std::memory_order_relaxed);
    --job.chunks_left;
    release(job, slot);
}

// ---- A run

// What the blocks have done.
void staged_board::collect(staged_job &job) noexcept {
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        staged_job::mailbox &box = job.mailboxes[block];
        const std::uint64_t seen = seen_by(job, block);
        for (; box.done != low_half(seen); ++box.done) {
            staged_slot &slot = *box.slots[box.done % kernels::messages_at_once];
            if (is_to_device(job))
                land(job, slot);
            else
                job.ready.push_back(slot);
        }
        box.is_attended = is_attended(seen, box);
    }
}

// What they may do next.
void staged_board::hand_over(staged_job &job) noexcept {
    if (is_to_device(job)) {
        while (staged_slot *const slot = job.ready.first()) {
            if (!tell_of(job, *slot)) return;
            job.ready.remove(*slot);
        }
        return;
    }
    while (job.next_chunk != job.end_chunk) {
        const bool has_room = std::any_of(job.mailboxes, job.mailboxes + job.blocks, [](const auto &box) noexcept {
            return box.is_attended && box.told - box.done < kernels::messages_at_once;
        });
        staged_slot *const slot = has_room ? take_slot(job) : nullptr;
        if (!slot) return;
        tell_of(job, *slot);
    }
}

bool staged_board::end_if_done(staged_job &job) noexcept {
    if (job.chunks_left != 0) return false;
    report_end(job); // first, as whoever waits for the stream may take that for the end
    tell_end(job);
    under_way_.remove(job);
    --job.ring->copies;
    --job.runs_expected;
    --pending_;
    if (!job.is_captured) {
        job.at = state::leaving;
        leaving_.push_back(job);
        ++leaving_count_;
    } else if (job.runs_expected != 0) {
        job.at = state::expected;
        expected_.push_back(job);
    } else {
        job.at = state::launched;
        launched_.push_back(job);
    }
    return true;
}

staged_board::task staged_board::find_task(std::uint64_t now) noexcept {
    // While copies are under way a look at those expected now and then is enough.
    constexpr std::uint64_t between_looks_ns = 10'000;
    if (under_way_.is_empty() || now - looked_ns_ >= between_looks_ns) look_for_arrivals(now);
    staged_job *const last = under_way_.last();
    for (staged_job *next = under_way_.first(); next;) {
        staged_job &job = *next;
        next = &job == last ? nullptr : job.next;
        collect(job);
        hand_over(job);
        if (end_if_done(job)) continue;
        staged_slot *const slot = !is_to_device(job)                ? job.ready.pop()
                                  : job.next_chunk != job.end_chunk ? take_slot(job)
                                                                    : nullptr;
        under_way_.remove(job); // it has had its turn
        under_way_.push_back(job);
        if (!slot) continue;
        ++job.busy;
        return {&job, slot};
    }
    return {};
}

void staged_board::complete(const task &done) noexcept {
    staged_job &job = *done.job;
    --job.busy;
    if (job.is_lost) {
        release(job, *done.slot);
        if (job.busy == 0) calm_.notify_all();
        return;
    }
    if (is_to_device(job))
        job.ready.push_back(*done.slot);
    else
        land(job, *done.slot);
    collect(job);
    hand_over(job);
    end_if_done(job);
}

// ---- Threads

void staged_board::serve(worker as, bool (*is_over)(void *user), void *user) noexcept {
    lock held = acquire();
    if (as != worker::helper) ++awake_;
    std::uint64_t idle_since = 0, announced = announced_;
    while (!is_over(user)) {
        const std::uint64_t now = clock_ns();
        if (const task found = find_task(now); found.job) {
            if (asleep_ && has_more(*found.job)) wake_.notify_one();
            held.unlock();
            perform(*found.job, *found.slot);
            lock_again(held);
            complete(found);
            idle_since = 0;
            continue;
        }
        if (!idle_since || announced != announced_) {
            idle_since = now;
            announced = announced_;
        }
        const std::uint64_t idle_ns = now - idle_since;
        if (as != worker::helper && (!has_work() || (awake_ > 1 && idle_ns > patience_ns_))) {
            if (as == worker::visitor) break;
            --awake_;
            ++asleep_;
            wake_.wait(held);
            --asleep_;
            ++awake_;
            idle_since = 0;
            continue;
        }
        const bool is_first = looking_++ == 0;
        held.unlock();
        // One thread looks all the time, the others now and then. The longer nothing has come, the less it matters when it
        // is seen.
        constexpr int short_while = 32, while_of_others = 96;
        constexpr std::uint64_t shortest_ns = 20'000, longest_ns = 250'000, share = 32;
        if (idle_ns < patience_ns_)
            for (int i = 0; i < (is_first ? short_while : while_of_others); ++i)
                relax_processor();
        else
            rest_for(std::clamp(idle_ns / share, shortest_ns, longest_ns));
        lock_again(held);
        --looking_;
    }
    if (as != worker::helper) --awake_;
}

void staged_board::wake_all() noexcept {
    const lock held = acquire();
    wake_.notify_all();
}

staged_board::outlook staged_board::look_ahead() noexcept {
    const lock held = acquire();
    recycle();
    outlook seen = {pending_, leaving_count_, captured_};
    for (const chain<staged_job> *const jobs : {&leaving_, &launched_, &expected_, &under_way_})
        if (const staged_job *const one = jobs->first()) seen.of_one = one->context;
    return seen;
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
            found.bytes += runs * bytes - (job->at == state::under_way ? job->landed : 0);
            found.busy += job->busy;
        }
    return found;
}

// ---- The end of a context

void staged_board::lose(staged_job &job, std::int32_t status, lock &held) noexcept {
    job.is_lost = true;
    pending_ -= job.is_captured ? job.runs_expected : 1;
    captured_ -= job.is_captured;
    job.runs_expected = 0;
    tell_end(job);
    // What still runs for a moment ends what it is at.
    for (int i = 0; i < 100 && is_at_work(job); ++i) {
        held.unlock();
        rest_for(1'000'000);
        held.lock();
    }
    calm_.wait(held, [&] { return job.busy == 0; });
    while (staged_slot *const slot = job.ready.pop())
        release(job, *slot);
    for (std::uint32_t block = 0; block < job.blocks; ++block) {
        staged_job::mailbox &box = job.mailboxes[block];
        for (; box.done != box.told; ++box.done)
            release(job, *box.slots[box.done % kernels::messages_at_once]);
    }
    if (job.watch) job.watch->status.store(status, std::memory_order_relaxed);
    report_end(job);
}

CUcontext staged_board::context_after(CUcontext one) noexcept {
    const lock held = acquire();
    CUcontext found = nullptr;
    const std::less<> is_before;
    for (const chain<staged_job> *const jobs : {&under_way_, &expected_, &launched_, &leaving_})
        for (const staged_job *job = jobs->first(); job; job = job->next)
            if (is_before(one, job->context) && (!found || is_before(job->context, found))) found = job->context;
    return found;
}

// Their records are not used again: nobody knows whether blocks will ever leave them.
void staged_board::lose(CUcontext context, std::int32_t status) noexcept {
    lock held = acquire();
    for (chain<staged_job> *const jobs : {&under_way_, &expected_, &launched_, &leaving_})
        for (;;) {
            staged_job *found = jobs->first();
            while (found && found->context != context)
                found = found->next;
            if (!found) break;
            jobs->remove(*found);
            if (jobs == &leaving_) {
                --leaving_count_;
                continue;
            }
            if (jobs == &under_way_) --found->ring->copies;
            lose(*found, status, held);
        }
}

} // namespace ferry
