// A copy between two devices without access to each other's memory, through slots of pinned memory. The source's device
// fills slots while the destination's device empties other slots. The driver's own copy has fewer bytes in flight.
#pragma once

#include "links/lanes.h"
#include "routes/route.h"

namespace ferry {

// Shorter copies are not relayed, so they need no query for access to the other end.
constexpr std::uint64_t min_relayed = std::uint64_t{2} << 20;

// Whether to query if the devices of both ends have access to each other.
inline bool may_be_relayed(const shape &shape, const call_facts &call) noexcept {
    const auto is_on_a_device = [](const shape_end &end) noexcept {
        return end.kind == memory_kind::device || end.kind == memory_kind::array;
    };
    const bool is_between =
        is_on_a_device(shape.source) && is_on_a_device(shape.destination) &&
        device_of(shape.source, call.context_device) != device_of(shape.destination, call.context_device);
    const bool is_forced = call.preferences.forced == route_kind::relayed;
    const bool is_free = call.preferences.forced == route_kind::none && !call.preferences.is_urgent;
    return is_between && (is_forced || (is_free && shape.bytes() >= min_relayed));
}

// A bit mask of the devices of a relayed copy, except the context's own device.
std::uint64_t devices_of_relay(const shape &shape, int context_device) noexcept;

struct relay_site {
    CUcontext context; // of the caller's stream; current
    CUstream stream;
    CUcontext source, destination; // of the ends
    int destination_device;
    bool may_make = true; // lanes and slots, which takes milliseconds; otherwise FERRY_ERROR_WOULD_BLOCK is returned
};

// Enqueues the copy. The caller's stream is ordered before and after all of it. If it returns
// FERRY_ERROR_LIMIT or _WOULD_BLOCK, or runs out of memory, nothing was enqueued, because no lane or slot was free. After any other failure, the stream is ordered
// after the part that was enqueued.
error run_relay(const driver_table &cu, lane_set &lanes, const shape &shape, const relay_site &site) noexcept;

} // namespace ferry
