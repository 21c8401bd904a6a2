// How workers find a channel, serve it, wait for the next channel, sleep and are woken.
#include <algorithm>
#include <utility>

#include "staging/host_copy.h"
#include "staging/scheduler.h"
#include "staging/spin.h"
#include "system/pages.h"
#include "system/threads.h"

namespace ferry {

namespace {

// Time that a worker stays awake without work: about as long as waking it takes. It stays awake longer while launches
// are running, because the next chunk is expected soon.
constexpr std::uint64_t idle_patience_ns = 50'000, idle_patience_running_ns = 1'000'000;
constexpr std::uint64_t pause_between_looks_ns = 500;
// After this time without a check of its own, a worker no longer relies on the watching worker, which may not be
// running.
constexpr std::uint64_t max_watch_ns = 100'000;
// Time that a helper waits, with work but without servers, before it requests another server.
constexpr std::uint64_t patience_without_servers_ns = 1'000'000;

// Returns whether the launch has work for another worker.
bool wants_another(const staging_launch &launch) noexcept {
    for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
        const staging_channel &channel = launch.record.channels[block];
        if (channel.is_taken) continue;
        const bool may_have_slot =
            launch.work.is_on_host() || channel.idle_count != 0 || launch.work.buffers->free_count != 0;
        if (has_arrived(launch, block) || (has_room(launch, channel) && may_have_slot)) return true;
    }
    return false;
}

// Records the delay of a worker on a chunk, unless the chunk's pages caused it.
void note_delay(staging_launch &launch, std::uint64_t time_ns, std::optional<std::uint64_t> &slow_faults) noexcept {
    constexpr std::uint64_t max_chunk_ns = 1'000'000; // ten times the time from memory
    if (time_ns < max_chunk_ns || launch.work.file) return;
    const std::uint64_t faults = slow_faults_of_caller();
    const bool is_page_late = slow_faults != faults;
    slow_faults = faults;
    if (is_page_late) return;
    std::uint64_t longest = launch.shared.thread_delay_ns.load(std::memory_order_relaxed);
    while (longest < time_ns && !launch.shared.thread_delay_ns.compare_exchange_weak(longest, time_ns)) {
    }
}

} // namespace

// ---- The next channel

bool staging_scheduler::may_go_on(staging_launch &launch, std::uint32_t block) noexcept {
    staging_channel &channel = launch.record.channels[block];
    if (channel.is_taken) return false;
    look_at(launch, block);
    const bool has_returned = return_slots(launch, channel); // other launches get these slots first
    return has_arrived(launch, block) ||
           (!has_returned && has_room(launch, channel) && (launch.work.is_on_host() || supply(launch, channel)));
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

bool staging_scheduler::take_task(staging_launch &launch, task &found) noexcept {
    std::uint32_t block = 0;
    const bool is_chosen = choose_channel(launch, block);
    if (!is_chosen && end_if_done(launch)) return false;
    launches_.move(launch, launch_state::running); // to the end of the list: the launch has had its turn
    if (!is_chosen) return false;
    staging_channel &channel = launch.record.channels[block];
    channel.is_taken = true;
    ++launch.shared.busy;
    ++launch.work.buffers->at_channels;
    found = {&launch, block};
    return true;
}

// A launch with stuck workers gets another worker only if no other launch has work, and never the last free server. A
// worker that serves only one copy (`one`) ignores other copies, and may resume its own at any time. A server with a
// home takes a copy that belongs elsewhere only if there is no other work and the copy's home has no free server, so
// that few bytes are transferred between NUMA nodes.
staging_scheduler::task staging_scheduler::find_task(std::uint64_t now, const staged_progress *one, int home) noexcept {
    // While launches are running, checking the expected launches at intervals is sufficient.
    constexpr std::uint64_t between_looks_ns = 10'000;
    if (!launches_.has(launch_state::running) || now - looked_ns_ >= between_looks_ns) look_for_arrivals(now);
    task found;
    const auto find = [&](bool may_be_stuck, bool belong_elsewhere) noexcept {
        staging_launch *const last = launches_.last(launch_state::running);
        for (staging_launch *next = launches_.first(launch_state::running); next;) {
            staging_launch &launch = *next;
            next = &launch == last ? nullptr : launch.next;
            if ((launch.run.stuck != 0) != may_be_stuck || (one && launch.work.progress != one)) continue;
            if (is_home(home) && launch.work.belongs_elsewhere(home) != belong_elsewhere) continue;
            if (belong_elsewhere && servers_.is_any_free(launch.work.home)) continue;
            if (take_task(launch, found)) return true;
        }
        return false;
    };
    for (const bool may_be_stuck : {false, true}) {
        if (may_be_stuck && (!is_any_stuck_ || (!one && servers_.all() < stuck_ + 2))) break;
        if (find(may_be_stuck, false) || (is_home(home) && find(may_be_stuck, true))) break;
    }
    return found;
}

// ---- At a channel

// Serves the channel as long as the worker has no more important work.
void staging_scheduler::serve_channel(const task &found, int home, search &mine, condition is_over) const noexcept {
    // Bytes that a worker copies while other launches are expected or running. For a copy that belongs elsewhere, a
    // server checks after each chunk whether a copy of its own home has work again.
    const bool is_away = is_home(home) && found.launch->work.belongs_elsewhere(home);
    const std::uint64_t turn = is_away ? 1 : std::uint64_t{1} << 20;
    constexpr std::uint64_t patience_with_block_ns = 20'000;
    constexpr std::uint32_t enough = 2; // messages for a block, while other blocks have no worker
    staging_launch &launch = *found.launch;
    const staging_channel &channel = launch.record.channels[found.block];
    std::uint64_t moved = 0, idle_since = 0;
    while (!launch.shared.is_lost.load(std::memory_order_relaxed)) {
        const std::uint64_t before = clock_ns(), faulting = faulting_ns_of_caller();
        const std::uint64_t bytes = advance(launch, found.block);
        // On a virtual machine, allocating new pages takes longer than copying their bytes. The driver's own copy would
        // be delayed too.
        if (bytes != 0)
            note_delay(launch, clock_ns() - before - (faulting_ns_of_caller() - faulting), mine.slow_faults);
        moved += bytes;
        if (is_over()) return;
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

// Serves the channel of a task without the mutex, and then returns the channel.
void staging_scheduler::work_on(const task &found, bool is_server, int home, search &mine, lock &held,
                                condition is_over) noexcept {
    if (std::exchange(is_watchdog_asleep_, false)) inspection_.notify_one();
    const bool can_call = servers_.looking() == 0 && servers_.count(server_state::asleep) != 0;
    if (can_call && wants_another(*found.launch)) servers_.call(1, found.launch->work.home);
    if (is_server) servers_.change(server_state::awake, server_state::busy, home);
    found.launch->record.channels[found.block].is_by_server = is_server;
    servers_.unlock(held);
    end_watch(mine);
    serve_channel(found, home, mine, is_over);
    lock_patiently(held);
    if (is_server) servers_.change(server_state::busy, server_state::awake, home);
    complete(found);
    mine.since_ns = 0;
}

// Lets the system read the beginning of a file whose copy waits for earlier work on its stream, unless the file is cached.
// Returns whether there was such a copy. The server holds no slot meanwhile.
bool staging_scheduler::read_ahead(int home, lock &held) noexcept {
    constexpr std::uint64_t most = std::uint64_t{64} << 20; // the copy may wait long, and memory is for others too
    if (!are_files_expected_) return false;
    staging_launch *found = nullptr;
    launches_.for_each({launch_state::expected}, [&](staging_launch &launch) noexcept {
        if (!found && launch.work.may_read_ahead) found = &launch;
    });
    are_files_expected_ = found;
    if (!found) return false;
    found->work.may_read_ahead = false;
    ferry_file &file = *found->work.file;
    retain(file);
    const std::uint64_t offset = file_offset(*found->work.cut, found->work.cut->chunk(found->work.first_chunk));
    const std::uint64_t size = std::min(found->work.bytes(), most);
    servers_.change(server_state::awake, server_state::busy, home);
    servers_.unlock(held);
    if (file.file.is_slow(offset, size)) file.file.expect(offset, size);
    release(file);
    lock_patiently(held);
    servers_.change(server_state::busy, server_state::awake, home);
    return true;
}

// ---- Without work

// Returns how long the worker has found no work since it last worked or a run was announced.
std::uint64_t staging_scheduler::time_without_work(search &mine, std::uint64_t now) const noexcept {
    if (!mine.since_ns || mine.announced != announced_) {
        mine.since_ns = now;
        mine.announced = announced_;
    }
    return now - mine.since_ns;
}

std::uint64_t staging_scheduler::patience() const noexcept {
    return launches_.has(launch_state::running) ? idle_patience_running_ns : idle_patience_ns;
}

// Waits, awake, until the next check is due. Of the workers without work, one watches and checks continuously. The
// others do not use the mutex until the watch is free, for at most max_watch_ns.
void staging_scheduler::watch(search &mine, std::uint64_t now, lock &held, condition is_over) noexcept {
    const std::uint64_t until = std::min(mine.since_ns + patience(), now + max_watch_ns);
    servers_.unlock(held);
    if (mine.watches) {
        spin_until([] { return false; }, pause_between_looks_ns);
    } else {
        while (!mine.watches && !is_over() && clock_ns() < until) {
            mine.watches =
                !is_watched_.load(std::memory_order_relaxed) && !is_watched_.exchange(true, std::memory_order_acquire);
            relax_processor();
        }
    }
    lock_patiently(held);
}

void staging_scheduler::end_watch(search &mine) noexcept {
    if (std::exchange(mine.watches, false)) is_watched_.store(false, std::memory_order_release);
}

// Sleeps for a short time. The longer nothing has happened, the less a delayed reaction matters.
void staging_scheduler::rest(search &mine, std::uint64_t now, lock &held) noexcept {
    constexpr std::uint64_t min_ns = 20'000, max_ns = 250'000, share = 32;
    end_watch(mine);
    servers_.unlock(held);
    rest_for(std::clamp((now - mine.since_ns) / share, min_ns, max_ns));
    lock_patiently(held);
}

void staging_scheduler::wake_all() noexcept {
    lock held = acquire();
    servers_.call_all();
    is_watchdog_asleep_ = false;
    inspection_.notify_one();
    servers_.unlock(held, UINT32_MAX);
}

void staging_scheduler::measure_thread_delay() noexcept {
    lock held(mutex_, std::try_to_lock);
    if (!held.owns_lock() || servers_.looking() != 0 || servers_.count(server_state::asleep) == 0) return;
    woken_ns_ = clock_ns();
    servers_.call(1, any_node);
    servers_.unlock(held);
}

// ---- Servers and helpers

// While there is work, the last free server never sleeps or leaves.
void staging_scheduler::serve_until(server as, int home, condition is_over) noexcept {
    lock held = acquire();
    servers_.come(home);
    search mine;
    while (!is_over()) {
        if (close_files(held)) continue; // the mutex was unlocked, so the end may have been announced
        const std::uint64_t now = clock_ns();
        if (const task found = find_task(now, nullptr, home); found.launch) {
            work_on(found, true, home, mine, held, is_over);
        } else if (read_ahead(home, held)) {
            mine.since_ns = 0;
        } else if (time_without_work(mine, now) < patience() && (as != server::visitor || has_work())) {
            servers_.change(server_state::awake, server_state::idle, home);
            watch(mine, now, held, is_over);
            servers_.change(server_state::idle, server_state::awake, home);
        } else if (has_work() && servers_.free() == 1) {
            rest(mine, now, held);
        } else if (as == server::visitor || (as == server::spare && are_spares_to_leave_)) {
            break;
        } else {
            end_watch(mine);
            servers_.sleep(held, home);
            mine.since_ns = 0;
            const std::uint64_t woken = std::exchange(woken_ns_, 0), awake = clock_ns();
            if (woken && ahead() == 0) thread_delay_.add(awake - woken, awake);
        }
    }
    end_watch(mine);
    servers_.leave(home);
    servers_.unlock(held);
}

void staging_scheduler::help_until(const staged_progress *one, condition is_over) noexcept {
    lock held = acquire();
    search mine;
    std::uint64_t unserved_since = 0;
    while (!is_over()) {
        const std::uint64_t now = clock_ns();
        if (const task found = find_task(now, one, any_node); found.launch) {
            work_on(found, false, any_node, mine, held, is_over);
            unserved_since = 0;
            continue;
        }
        if (servers_.all() != 0 || !has_work()) {
            unserved_since = 0;
        } else if (!unserved_since) {
            unserved_since = now;
        } else if (now - unserved_since >= patience_without_servers_ns) {
            unserved_since = now;
            is_server_wanted_ = true; // for other copies, which may block the helper's own copy
            inspection_.notify_one();
        }
        if (time_without_work(mine, now) < patience())
            watch(mine, now, held, is_over);
        else
            rest(mine, now, held);
    }
    end_watch(mine);
    servers_.unlock(held);
}

} // namespace ferry
