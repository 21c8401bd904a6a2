// The lanes of a broadcast: internal streams on the devices, and contiguous copies on them.
#pragma once

#include <optional>

#include "batch/broadcast_targets.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

// Releases the lanes when it is destroyed.
class broadcast_lanes {
public:
    // `before`: see run_broadcast(). `index`: of a copy of the broadcast, reported if a file fails.
    broadcast_lanes(ferry_instance &instance, const copy_preferences &preferences, const launch_site &site,
                    lane *before, std::uint64_t index) noexcept
        : instance_(instance), preferences_(preferences), site_(site), before_(before), index_(index) {}

    // `is_idle`: the caller's stream has no earlier work that the lanes must follow.
    error take(const broadcast_targets &to, bool is_idle) noexcept;
    // Orders the lanes that read the source after the earlier work of the caller's stream.
    error begin() noexcept;
    // Orders the caller's stream after all work of all lanes.
    error join() noexcept;

    // The lane that copies from the source to this target. If the source is on a device, one lane serves all targets. A
    // target that forwards nothing needs no lane if it is in the context of the caller's stream: see feed_alone().
    lane &feeding(unsigned target) noexcept { return **feeding_[target]; }
    // Copies the whole source from the host to a target that forwards nothing.
    error feed_alone(unsigned target, const shape_end &to, const shape_end &from, bool is_idle) noexcept;
    lane &feeding_from_device() noexcept { return **feeding_[0]; }
    // The lane on which this target forwards the bytes that it has received.
    lane &forwarding(unsigned target) noexcept { return **forwarding_[target]; }

    copy_site site_on(const lane &by) const noexcept {
        return {.context = by.context(), .stream = by.stream, .index = index_};
    }
    error copy(lane &by, int device_of_lane, const shape_end &to, const shape_end &from, bool is_idle = false) noexcept;
    error order(const lane &earlier, const lane &later) noexcept;

    // Plans a contiguous copy in the current context `site.context` of `device`, with the fastest route there, and
    // calls `use`. `is_idle`: the caller's stream is idle, so the lane will be idle soon.
    error with_planned_line(const shape_end &to, const shape_end &from, int device, const copy_site &site, bool is_idle,
                            function_ref<error(const copy_step &)> use) noexcept;
    error copy_line(const shape_end &to, const shape_end &from, int device, const copy_site &site,
                    bool is_idle) noexcept;

private:
    using optional_lane = std::optional<taken_lane>;

    error take(optional_lane &lane, CUcontext context, const stream_key &user) noexcept;
    bool needs_no_lane(const broadcast_targets &to, unsigned target) const noexcept;
    lane *lane_of_caller() noexcept;

    ferry_instance &instance_;
    const copy_preferences &preferences_;
    const launch_site &site_;
    lane *const before_;
    const std::uint64_t index_;
    bool follows_stream_ = true; // the lanes must wait for the earlier work of the caller's stream
    optional_lane own_, feeding_[broadcast_targets::max_targets], forwarding_[broadcast_targets::max_targets];
};

} // namespace ferry
