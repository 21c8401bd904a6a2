// What becomes of launches whose context has died.
#include <functional>
#include <utility>

#include "base/threads.h"
#include "staging/scheduler.h"

namespace ferry {

const tracked_context *staging_scheduler::context_after(const tracked_context *one) noexcept {
    const lock held = acquire();
    const tracked_context *found = nullptr;
    const std::less<> is_before;
    for (const chain<staging_launch> *const launches : {&running_, &expected_, &launched_, &leaving_})
        for (const staging_launch *launch = launches->first(); launch; launch = launch->next)
            if (is_before(one, launch->context) && (!found || is_before(launch->context, found)))
                found = launch->context;
    return found;
}

// The records of lost launches are not used again, because a block may still come.
void staging_scheduler::lose(const tracked_context &context, std::int32_t status) noexcept {
    const lock held = acquire();
    recycle();
    for (chain<staging_launch> *const launches : {&running_, &expected_, &launched_, &leaving_})
        for (staging_launch *next = launches->first(); next;) {
            staging_launch &launch = *next;
            next = launch.next;
            if (launch.context != &context) continue;
            if (launches == &running_)
                end_run(launch);
            else
                launches->remove(launch);
            if (launches == &expected_) --ahead_;
            const bool has_all_bytes = launches == &leaving_;
            leaving_count_ -= has_all_bytes;
            launch.at = staging_launch::state::lost;
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
    if (launch.progress) launch.progress->status.store(launch.loss, std::memory_order_relaxed);
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
                free_parcel(*launch.buffers->parcel_memory, std::exchange(channel.parcels, channel.parcels->next));
            give_back_slots(launch, channel);
        }
        lost_.remove(launch);
    }
}

} // namespace ferry
