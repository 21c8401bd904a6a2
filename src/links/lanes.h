// Internal streams on all devices, for copies whose bytes are transferred through several devices. A copy takes the
// lanes that it needs, enqueues everything in one call, and releases them. Events order the lanes, and nothing waits on
// the host.
#pragma once

#include <atomic>

#include "base/function_ref.h"
#include "device/stream_key.h"
#include "staging/buffers.h"

namespace ferry {

struct lane {
    // One slot is filled while another is emptied, and the third compensates for delays. Two H100 relay 1 GiB at 53.2
    // GB/s through 3, 4 or 6 slots of 8 MiB, and at 52.0 through 3 to 8 slots of 4 MiB.
    static constexpr unsigned slots = 3;
    static constexpr std::uint64_t max_slot = std::uint64_t{8} << 20;

    CUstream stream = nullptr;
    // Events of the lane's context. An event may be recorded again as soon as all waits for it are enqueued.
    CUevent last = nullptr; // recorded by join(), after the lane's latest work
    CUevent filled[slots] = {}, emptied[slots] = {};
    staged_memory memory; // the slots that this lane empties; created on demand
    std::uint64_t slot_size = 0;
    // A bit mask of other devices, possibly without a lane, to which the lane's work has written since the lane was
    // last idle.
    std::atomic<std::uint64_t> reached = 0;

    CUcontext context() const noexcept { return owner.handle; }
    void reach(int other) noexcept { reached.fetch_or(std::uint64_t{1} << other, std::memory_order_relaxed); }

private:
    friend class lane_set;
    context_name owner; // null handle: not created
    stream_key user = {};
    std::atomic<int> device = 0;
    bool is_used = false;        // `last` has been recorded
    bool is_unmarked = false;    // the driver failed to record it after the latest work
    bool is_left_behind = false; // has work of helpers for which the stream of their copy does not wait
    bool is_waited_for = false;  // by the stream of the lane's copy
    std::atomic<bool> is_taken = false;
    // While a copy has the lane: the lane's context and, once the lane is created, the number of the stream that uses
    // it.
    std::atomic<CUcontext> user_in = nullptr;
    std::atomic<std::uint64_t> user_number = 0;
};

class lane_set {
public:
    lane_set(const driver_table &cu, device_contexts &contexts, pinned_memory &pinned, const device_facts *devices,
             const allocator &memory) noexcept
        : cu_(cu), contexts_(contexts), pinned_(pinned), devices_(devices), memory_(memory) {}
    ~lane_set();
    lane_set(const lane_set &) = delete;
    lane_set &operator=(const lane_set &) = delete;

    // Whether the driver has all calls that lanes need.
    bool may_serve() const noexcept {
        return cu_.cuStreamCreateWithPriority && cu_.cuStreamDestroy && cu_.cuStreamWaitEvent && cu_.cuEventCreate &&
               cu_.cuEventRecord && cu_.cuEventQuery && cu_.cuEventDestroy;
    }
    // Takes a lane of the current context `context` for a copy on the stream `user`. The lane's earlier work is
    // complete or belongs to the same stream, so that independent streams of the program never wait for each other.
    // Returns FERRY_ERROR_LIMIT while the maximum number of lanes of the context is in use.
    // `as_helper`: the lane's work may follow work of helpers, which may be late. Without `may_make`, returns
    // FERRY_ERROR_WOULD_BLOCK if a lane must be created.
    error take(CUcontext context, const stream_key &user, bool as_helper, bool may_make, lane *&taken) noexcept;
    static void release(lane &taken) noexcept {
        taken.user_number.store(0, std::memory_order_relaxed);
        taken.user_in.store(nullptr, std::memory_order_relaxed);
        taken.is_taken.store(false, std::memory_order_release);
    }

    // Allocates the lane's slots in pinned memory near the device, unless the lane has slots.
    error provide_slots(lane &taken, int device) noexcept;

    // Makes `later` wait for the work that is on `stream` now. Uses the event of `by`, whose context is the context of
    // `stream`.
    error join(lane &by, CUstream stream, CUstream later) noexcept;
    // The same in two steps: marks the work, and makes any number of streams wait for it.
    error mark(lane &by, CUstream stream) noexcept;
    error follow(lane &by, CUstream later) noexcept;
    // Makes `later` wait for the lane. If the driver fails, the host waits, so that no work of the lane is left.
    error join_or_wait(lane &one, CUstream later) noexcept;

    // Returns a bit mask of the devices whose lanes are working on bytes that the stream `user` waits for, and of the
    // devices to which these lanes write. Excludes the device of the stream's own context, because the stream dies with
    // it. Lanes in another context that has died count once. Lanes that another thread is using for the same stream
    // count as well.
    std::uint64_t devices_at_work(const stream_key &user, int device_of_user) noexcept;
    bool empty() const noexcept { return !all_[0].load(std::memory_order_acquire); }

    // Waits for the helpers of copies in contexts other than `context`, until `is_over` returns true.
    void wait_for_others(CUcontext context, function_ref<bool()> is_over) noexcept;
    // Frees the slots of idle lanes.
    error trim() noexcept;
    // Must be called when the context ends, because its lanes end with it.
    void forget(CUcontext context) noexcept;
    // Waits for the lanes' work and destroys the lanes. No other calls may follow.
    void close() noexcept;

private:
    lane *find(const context_name &here, const stream_key &user, bool as_helper, unsigned &at_work,
               lane *&unmade) noexcept;
    lane *add() noexcept;
    void end(lane &one) noexcept;
    error make(lane &made, CUcontext context) noexcept;
    void destroy(lane &one) noexcept;
    error free_slots(lane &one) noexcept;
    bool is_done(const lane &one) const noexcept;

    // Each lane that waits for a stream of the program occupies a hardware queue of its device, of which there are 8 by
    // default (CUDA_DEVICE_MAX_CONNECTIONS).
    static constexpr unsigned max_at_work = 4;
    static constexpr unsigned max_lanes = 256;

    const driver_table &cu_;
    device_contexts &contexts_;
    pinned_memory &pinned_;
    const device_facts *devices_;
    const allocator &memory_;
    std::atomic<lane *> all_[max_lanes] = {};
};

// Takes a lane until the end of the scope.
class taken_lane {
public:
    explicit taken_lane(lane_set &lanes) noexcept : lanes_(lanes) {}
    ~taken_lane() {
        if (lane_) lane_set::release(*lane_);
    }
    taken_lane(const taken_lane &) = delete;
    taken_lane &operator=(const taken_lane &) = delete;

    error take(CUcontext context, const stream_key &user, bool as_helper = false, bool may_make = true) noexcept {
        return lanes_.take(context, user, as_helper, may_make, lane_);
    }
    lane *operator->() const noexcept { return lane_; }
    lane &operator*() const noexcept { return *lane_; }

private:
    lane_set &lanes_;
    lane *lane_ = nullptr;
};

} // namespace ferry
