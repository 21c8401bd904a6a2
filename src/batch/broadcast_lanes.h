// The lanes of a broadcast: streams of ferry's own on the devices, and copies of lines on them.
#pragma once

#include <optional>

#include "batch/broadcast_targets.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

// Plans a line in the current context `site.context` of `device`, by whichever route is best there, and calls `use`.
// `is_idle`: the caller's stream is idle, so the lane will be idle soon.
error with_planned_line(ferry_instance &instance, const shape_end &to, const shape_end &from, int device,
                        const copy_site &site, bool is_idle, function_ref<error(const copy_step &)> use) noexcept;
error copy_line(ferry_instance &instance, const shape_end &to, const shape_end &from, int device, const copy_site &site,
                bool is_idle) noexcept;

// Releases the lanes when it is destroyed.
class broadcast_lanes {
public:
    broadcast_lanes(ferry_instance &instance, const launch_site &site) noexcept : instance_(instance), site_(site) {}

    error take(const broadcast_targets &to) noexcept;
    // Orders the lanes that read the source behind the earlier work of the caller's stream.
    error begin() noexcept;
    // Orders the caller's stream behind all lanes, whatever work they have.
    error join() noexcept;

    // The lane that copies from the source to this target. If the source is on a device, one lane serves all targets.
    lane &feeding(unsigned target) noexcept { return **feeding_[target]; }
    lane &feeding_from_device() noexcept { return **feeding_[0]; }
    // The lane on which this target forwards what it has received.
    lane &forwarding(unsigned target) noexcept { return **forwarding_[target]; }

    error copy(lane &by, int device_of_lane, const shape_end &to, const shape_end &from, bool is_idle = false) noexcept;
    error order(const lane &earlier, const lane &later) noexcept;

private:
    using optional_lane = std::optional<taken_lane>;

    error take(optional_lane &lane, CUcontext context, const stream_key &user) noexcept;
    lane *lane_of_caller() noexcept;

    ferry_instance &instance_;
    const launch_site &site_;
    optional_lane own_, feeding_[broadcast_targets::max_targets], forwarding_[broadcast_targets::max_targets];
};

} // namespace ferry
