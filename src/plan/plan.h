// Chooses the route of a copy, and how the route runs it. Pure: the same shape and facts give the same plan.
#pragma once

#include "base/obstacle.h"
#include "copy/shape.h"
#include "plan/profile.h"

namespace ferry {

enum class copy_form : std::uint8_t { synchronous, asynchronous };

enum class route_kind : std::uint8_t {
    none = FERRY_ROUTE_NONE, // as a preference: any
    driver = FERRY_ROUTE_DRIVER,
    kernel,    // ferry's own kernels, on the caller's stream
    staged,    // a kernel or copies on that stream and host threads, through slots of a staging buffer
    buffered,  // the calling thread reads the source into pinned memory, and the driver's call copies that
    relayed,   // between devices without access: the driver's calls, chunk by chunk through slots of pinned memory
    multilink, // kernels of several devices, each over its own link to the host
};

// The error for a forced route that cannot serve.
constexpr error refuse_route(obstacle why) noexcept {
    return {FERRY_ERROR_ROUTE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0, static_cast<std::uint64_t>(why)};
}

// The caller's wishes for the choice of the route.
struct copy_preferences {
    route_kind forced = route_kind::none;
    bool no_kernels = false;      // no kernels
    bool is_urgent = false;       // must not wait behind other copies in a copy engine's queue
    bool over_links = false;      // a large copy may take the links of other devices
    bool source_read = false;     // a pageable source has been read when an asynchronous call returns
    bool written = false;         // a pageable destination is complete when an asynchronous call returns
    std::uint16_t max_blocks = 0; // maximum blocks, each on one SM at most; 0: as many as pay off

    // Whether an asynchronous call returns only when its pageable end has been read or is complete.
    bool is_awaited(bool to_device) const noexcept { return to_device ? source_read : written; }
    bool any() const noexcept {
        return forced != route_kind::none || no_kernels || is_urgent || over_links || source_read || written ||
               max_blocks;
    }
};

// The wishes that FERRY_COPY_* flags express.
constexpr copy_preferences preferences_of(std::uint32_t flags) noexcept {
    copy_preferences preferences;
    if (flags & FERRY_COPY_BY_DRIVER) preferences.forced = route_kind::driver;
    if (flags & FERRY_COPY_BY_KERNEL) preferences.forced = route_kind::kernel;
    if (flags & FERRY_COPY_BY_STAGING) preferences.forced = route_kind::staged;
    if (flags & FERRY_COPY_BY_RELAY) preferences.forced = route_kind::relayed;
    preferences.no_kernels = flags & FERRY_COPY_NO_KERNELS;
    preferences.is_urgent = flags & FERRY_COPY_URGENT;
    preferences.over_links = flags & FERRY_COPY_MULTILINK;
    preferences.source_read = flags & FERRY_COPY_SOURCE_READ;
    preferences.written = flags & FERRY_COPY_DESTINATION_WRITTEN;
    preferences.max_blocks = static_cast<std::uint16_t>(flags >> FERRY_COPY_MAX_SMS_SHIFT);
    return preferences;
}

struct plan_facts {
    int context_device = -1; // the device of the context the copy runs in
    copy_form form = copy_form::synchronous;
    bool is_captured = false; // the copy becomes part of a graph; known before planning
    // The earlier work on the stream is known to be complete.
    bool is_stream_idle = false;
    // The work before is known to be complete, but for copies that have no order with this one: of its batch, or other
    // parts of it.
    bool is_source_final = false;
    // The rest need not be filled for a copy that needs_no_choice.
    obstacle kernels = obstacle::not_loaded;
    // Why kernels in that context do not reach an end. `managed`: they do reach it, and it is managed.
    obstacle source_reach = obstacle::not_known;
    obstacle destination_reach = obstacle::not_known;
    // The device uses the host's page tables: it reads and writes pageable memory as fast as pinned memory.
    bool reaches_pageable = false;
    obstacle staging = obstacle::no_staging;     // why the instance cannot stage
    bool has_stream_waits = false;               // staging can use copies on the stream in place of a kernel
    obstacle staged_reach = obstacle::not_known; // why staging kernels do not reach the device's end
    // Why the copy cannot be relayed. `direct_access`: it can, but one of the two devices has access to the other's end.
    obstacle relay = obstacle::not_between_devices;
    // Why the copy cannot take several links, and how many it can take with its own.
    obstacle multilink = obstacle::forbidden;
    std::uint16_t links = 1;
    std::uint16_t helper_blocks = 0; // the maximum of each helper; 0: none is set
    std::uint16_t staging_threads = 0;
    std::uint64_t slot_size = std::uint64_t{512} << 10; // bytes, of the staging buffer
    // How late staged copies lately were: the threads, where the system runs others, and the kernel, where others fill
    // the device.
    std::uint64_t thread_delay_ns = 0, start_delay_ns = 0;
    copy_preferences preferences = {};
    const device_profile *profile = nullptr; // of the context's device
    pair_rates pair = {};                    // of the two devices, where the copy is between devices
    double own_share = 1; // of what all links that the copy can take carry: the part of this device's own
};

struct copy_plan {
    route_kind route = route_kind::driver;
    // An end lies on another device than the context's. The driver checks addresses against the current context, so the
    // call must be the one that names the context of each end (NVIDIA/cccl pull request 9997). Graphs do not take that
    // call.
    bool names_contexts = false;
    // The copy is synchronous and the call returns before the bytes are there. A kernel launch always does. The
    // driver's synchronous call does after D2D, and after pageable H2D, whose last piece may still be in flight (CUDA
    // driver API, "API synchronization behavior").
    bool synchronise_after = false;
    // The driver's asynchronous call reads a pageable source inside the call, whatever earlier work the stream has
    // (seen up to 300000 bytes, CUDA 13.0, H200). So ferry first waits for that work, which may be what writes the
    // source.
    bool wait_before = false;
    // The call may return only when the source has been read, or the destination is complete: the caller works on the
    // staged copy until it is done, or waits for the stream after the driver's call.
    bool wait_in_the_call = false;
    // A staged copy without a kernel: copies on the stream take its place. `blocks` is 0 if a kernel could not serve.
    bool by_copies = false;
    // Why the route that the caller forces cannot serve. Such a copy must be refused.
    obstacle refused = obstacle::none;
    std::uint16_t blocks = 0;                // of a kernel, or of each staging kernel
    std::uint16_t links = 1;                 // that a staged copy may take
    std::uint8_t reason = FERRY_REASON_LINE; // why this route
};

// How long the driver route blocks its caller: "API synchronization behavior" of the CUDA driver API, and CUDA 13.0 as
// observed. Whether host memory is pageable must be known.
enum class blocking { no, until_staged, until_done };
blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept;

// An end without a device of its own counts as on the context's.
inline int device_of(const shape_end &end, int context_device) noexcept {
    return end.device < 0 ? context_device : end.device;
}
inline bool is_elsewhere(const shape_end &end, int context_device) noexcept {
    return end.device >= 0 && end.device != context_device;
}
inline bool leaves_device(const shape &shape, int context_device) noexcept {
    return is_elsewhere(shape.source, context_device) || is_elsewhere(shape.destination, context_device);
}

// Whether the driver's calls copy the memory as host memory. They copy memory of a host pool as device memory where the
// device of the context that the call names has access to the pool (docs/driver.md).
constexpr bool is_copied_as_host(memory_kind kind) noexcept {
    return is_host(kind) && kind != memory_kind::host_pool && kind != memory_kind::far_pinned;
}

// Whether the driver's asynchronous call reads the source before it returns. Between two host addresses the call waits
// for the stream instead.
inline bool is_read_in_the_call(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pageable && !is_copied_as_host(shape.destination.kind);
}

// Whether a copy of so many bytes is staged on an idle stream without a prediction, because the driver's call would block
// the caller. That is not worth it where staging is many times slower, as on the software driver. Even with the cautious
// profile it is at most 2.4 times slower than the driver.
inline bool is_worth_staging(std::uint64_t bytes, const direction_profile &profile) noexcept {
    constexpr std::uint64_t largest_wait = std::uint64_t{1} << 20, much_slower = 8;
    return bytes > largest_wait && profile.staged_rate * much_slower > profile.driver_pageable_rate;
}

// The most bytes that the calling thread reads into pinned memory itself.
constexpr std::uint64_t largest_buffered = std::uint64_t{1} << 20;

// Whether the source is to be read before the call returns, even if earlier work on the stream is pending.
inline bool is_read_early(const shape &shape, const plan_facts &facts) noexcept {
    return facts.preferences.source_read && facts.form == copy_form::asynchronous &&
           (is_read_in_the_call(shape) || shape.source.kind == memory_kind::far_pinned);
}

// Whether the destination is to be complete before the call returns.
inline bool is_written_in_the_call(const shape &shape, const plan_facts &facts) noexcept {
    const memory_kind to = shape.destination.kind;
    const bool is_pageable = to == memory_kind::pageable && !is_copied_as_host(shape.source.kind);
    return facts.preferences.written && facts.form == copy_form::asynchronous &&
           (is_pageable || to == memory_kind::far_pinned);
}

inline bool has_far_end(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::far_pinned || shape.destination.kind == memory_kind::far_pinned;
}

// Whether the calling thread works on the copy if it is staged.
inline bool caller_helps(const shape &shape, const plan_facts &facts) noexcept {
    return facts.form == copy_form::synchronous || is_read_early(shape, facts) || is_written_in_the_call(shape, facts);
}

// How much later than predicted otherwise a staged copy would be. A caller that helps does the work of threads that are
// late.
inline std::uint64_t staging_delay(const shape &shape, const plan_facts &facts, bool by_copies) noexcept {
    return (by_copies ? 0 : facts.start_delay_ns) + (caller_helps(shape, facts) ? 0 : facts.thread_delay_ns);
}

// Shorter copies are not relayed, so that they are spared the question whether a device has access to the other end.
constexpr std::uint64_t smallest_relayed = std::uint64_t{2} << 20;

// At most, of each device whose link a copy takes. Reads of host memory need more of them than writes: two H100 with 16
// and 24 blocks move 1 GiB of pinned memory at 101.9 and 104.1 GB/s to a device, and at 105.3 and 106.0 to the host.
constexpr std::uint16_t link_blocks_to_device = 24, link_blocks_to_host = 16;
inline std::uint16_t blocks_of_a_link(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pinned ? link_blocks_to_device : link_blocks_to_host;
}
// Shorter copies do not take several links.
constexpr std::uint64_t smallest_multilink = std::uint64_t{4} << 20;
constexpr std::uint64_t smallest_staged_multilink = std::uint64_t{32} << 20;
constexpr std::uint16_t max_staged_links = 4;

// Whether to look for the links that a copy can take.
inline bool may_take_links(const shape &shape, const plan_facts &facts) noexcept {
    const auto is_of_host = [](const shape_end &end) noexcept {
        return end.kind == memory_kind::pinned || end.kind == memory_kind::pageable;
    };
    const auto is_here = [&](const shape_end &end) noexcept {
        return end.kind == memory_kind::device && !is_elsewhere(end, facts.context_device);
    };
    const bool is_with_host = (is_of_host(shape.source) && is_here(shape.destination)) ||
                              (is_here(shape.source) && is_of_host(shape.destination));
    return facts.preferences.over_links && is_with_host;
}

// Whether to find out if the devices of both ends have access to each other.
inline bool may_be_relayed(const shape &shape, const plan_facts &facts) noexcept {
    const auto is_on_a_device = [](const shape_end &end) noexcept {
        return end.kind == memory_kind::device || end.kind == memory_kind::array;
    };
    const auto device_of = [&](const shape_end &end) noexcept {
        return end.device < 0 ? facts.context_device : end.device;
    };
    const bool is_between = is_on_a_device(shape.source) && is_on_a_device(shape.destination) &&
                            device_of(shape.source) != device_of(shape.destination);
    const bool is_forced = facts.preferences.forced == route_kind::relayed;
    const bool is_free = facts.preferences.forced == route_kind::none && !facts.preferences.is_urgent;
    return is_between && (is_forced || (is_free && shape.bytes() >= smallest_relayed));
}

// The plan for the driver route, which serves all shapes.
inline copy_plan plan_for_driver(const shape &shape, const plan_facts &facts) noexcept {
    const bool returns_early =
        !is_copied_as_host(shape.destination.kind) &&
        (shape.source.kind != memory_kind::pinned || shape.destination.kind == memory_kind::managed);
    copy_plan plan;
    plan.names_contexts = !facts.is_captured && leaves_device(shape, facts.context_device);
    plan.synchronise_after = facts.form == copy_form::synchronous && returns_early;
    plan.wait_before = facts.form == copy_form::asynchronous && !facts.is_captured && !facts.is_stream_idle &&
                       !facts.is_source_final && is_read_in_the_call(shape) && !facts.preferences.source_read;
    plan.wait_in_the_call = !facts.is_captured && has_far_end(shape) &&
                            (is_read_early(shape, facts) || is_written_in_the_call(shape, facts));
    return plan;
}

inline bool is_pageable(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pageable || shape.destination.kind == memory_kind::pageable;
}

// Whether the copy is a line without wishes that the driver need not stage. Copy engines are fastest for such lines,
// whatever their size.
inline bool needs_no_choice(const shape &shape, const copy_preferences &preferences) noexcept {
    return shape.is_line() && !preferences.any() && !is_pageable(shape);
}

// The plans of the routes that may serve, the one that the cost model prefers first. The driver's is the last, and always
// there unless the caller forces another route; then the only plan may be one that is refused.
struct ranked_routes {
    copy_plan plans[3];
    int count = 0;

    ranked_routes &add(const copy_plan &plan) noexcept {
        plans[count++] = plan;
        return *this;
    }
};
[[gnu::noinline]] ranked_routes rank_routes(const shape &shape, const plan_facts &facts) noexcept;

// The plan for the staged route, which must be able to serve. Copies on the stream take the place of a kernel where
// kernels may not or cannot serve, or lately were late to start.
copy_plan plan_for_staging(const shape &shape, const plan_facts &facts) noexcept;

// Whether the driver's call is the fastest way to read the source early, even behind other work: it copies a short line
// into its commands, and waits for nothing.
bool goes_with_commands(const shape &shape, const plan_facts &facts) noexcept;

// Whether staging can do without a kernel.
bool can_stage_by_copies(const shape &shape, const plan_facts &facts) noexcept;

// Why a route that was ranked cannot serve after all, now that everything has been asked.
obstacle veto(const shape &shape, const plan_facts &facts, route_kind route) noexcept;
copy_plan refuse_plan(obstacle why) noexcept;

// Where all facts are known.
inline copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept {
    const bool has_choice = !needs_no_choice(shape, facts.preferences) || facts.relay == obstacle::none;
    return has_choice ? rank_routes(shape, facts).plans[0] : plan_for_driver(shape, facts);
}

// The forecast for each route, for callers that ask why one was chosen.
struct route_forecast {
    route_kind route = route_kind::none;
    obstacle why_not = obstacle::none;
    std::uint16_t blocks = 0;
    std::uint64_t predicted_ns = 0; // from the call until the copy is complete; 0: not known
};
struct copy_forecast {
    route_forecast driver, kernel, staged, relayed, multilink;
};
copy_forecast predict_copy(const shape &shape, const plan_facts &facts) noexcept;

} // namespace ferry
