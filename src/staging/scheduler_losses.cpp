// Handles launches whose context has died.
#include <functional>
#include <utility>

#include "staging/scheduler.h"
#include "system/threads.h"

namespace ferry {

namespace {

// The states of launches whose blocks may be running or may still start.
constexpr std::initializer_list<launch_state> states_on_a_device = {launch_state::running, launch_state::expected,
                                                                    launch_state::launched, launch_state::leaving};

} // namespace

const tracked_context *staging_scheduler::context_after(const tracked_context *one) noexcept {
    const lock held = acquire();
    const tracked_context *found = nullptr;
    const std::less<> is_before;
    const auto consider = [&](const tracked_context *its) noexcept {
        if (its && is_before(one, its) && (!found || is_before(its, found))) found = its;
    };
    launches_.for_each(states_on_a_device, [&](const staging_launch &launch) noexcept {
        consider(launch.work.context);
        for (const tracked_context *const helper : launch.work.helpers)
            consider(helper);
    });
    return found;
}

// The records of lost launches are not reused, because a block may still start.
void staging_scheduler::lose(const tracked_context &context, status_code status) noexcept {
    const lock held = acquire();
    recycle();
    launches_.for_each(states_on_a_device, [&](staging_launch &launch) noexcept {
        if (!launch.work.is_in(&context)) return;
        launch.shared.is_lost = true;
        launch.loss = status;
        launch.dead = &context;
        switch (launch.state) {
        case launch_state::leaving: // it has all bytes and no slots
            if (launch.missed_ns) note_arrival(launch);
            return launches_.move(launch, launch_state::dead);
        case launch_state::running:
            end_run(launch, launch_state::losing);
            break;
        default:
            launches_.move(launch, launch_state::losing);
        }
        if (launch.shared.busy == 0) end_lost(launch);
    });
}

// No worker serves the launch any more, so no more messages are published for its blocks.
void staging_scheduler::end_lost(staging_launch &launch) noexcept {
    pending_ -= launch.is_captured ? launch.runs_expected : 1;
    captured_ -= launch.is_captured;
    launch.runs_expected = 0;
    if (launch.work.is_broadcast)
        publish_end(launch);
    else
        abort_blocks(launch);
    launch.lost_ns = clock_ns();
    launches_.move(launch, launch_state::lost);
    collect_lost_slots();
    if (staged_progress *const progress = launch.work.progress)
        progress->status.store(launch.loss, std::memory_order_relaxed);
    report_end(launch);
}

// Makes the slots of a lost launch available once its blocks have completed all published messages. The blocks do so
// soon or, in a dead context, never, so there is a time limit.
void staging_scheduler::collect_lost_slots() noexcept {
    // The blocks of a broadcast on other devices do not trap, so they get more time.
    constexpr std::uint64_t max_ns = 100'000'000, max_of_others_ns = 10'000'000'000; // 0.1 s: a few chunks
    launches_.for_each({launch_state::lost}, [&](staging_launch &launch) noexcept {
        const std::uint64_t since = clock_ns() - launch.lost_ns;
        if (is_at_work(launch) && since < max_ns) return;
        if (launch.work.is_broadcast && is_at_work(launch, launch.dead) && since < max_of_others_ns) return;
        for (std::uint32_t block = 0; block < launch.work.blocks; ++block) {
            staging_channel &channel = launch.record.channels[block];
            take_back_all(channel);
            while (channel.parcels)
                free_parcel(*launch.work.buffers->parcel_memory, std::exchange(channel.parcels, channel.parcels->next));
            return_slots(launch, channel);
        }
        launches_.move(launch, launch_state::dead);
    });
}

} // namespace ferry
