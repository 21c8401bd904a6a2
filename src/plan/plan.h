// Chooses the route of a copy, and the parameters of the route. Pure: equal shapes and facts give equal plans.
#pragma once

#include <algorithm>
#include <bit>

#include "base/obstacle.h"
#include "base/route_kind.h"
#include "copy/shape.h"
#include "plan/profile.h"

namespace ferry {

enum class copy_form : std::uint8_t { synchronous, asynchronous };

// Whether the call could serve, but would wait, which the caller forbids.
constexpr bool is_wait(obstacle why) noexcept {
    return why == obstacle::waits || why == obstacle::not_prepared || why == obstacle::busy;
}

// The error for a copy that the routes that the caller allows cannot serve.
constexpr error refuse_route(obstacle why) noexcept {
    return {is_wait(why) ? FERRY_ERROR_WOULD_BLOCK : FERRY_ERROR_ROUTE,
            FERRY_SIDE_OPTIONS,
            is_wait(why) ? std::int16_t{FERRY_FIELD_FLAGS} : std::int16_t{FERRY_FIELD_ROUTE},
            numbers::obstacle,
            0,
            static_cast<std::uint64_t>(why)};
}

// When a pageable source of an asynchronous copy is read, as FERRY_SOURCE_ORDER_* in ferry.h.
enum class source_order : std::uint8_t { any, stream, call };

// The caller's preferences for the choice of the route.
struct copy_preferences {
    route_kind forced = route_kind::none;
    bool no_kernels = false; // no kernels
    bool is_urgent = false;  // must not wait behind other copies in a copy engine's queue
    bool over_links = false; // a large copy may use the links of other devices
    source_order order = source_order::any;
    bool written : 1 = false;     // an asynchronous call returns only after a pageable destination is complete
    bool no_wait : 1 = false;     // a call that would wait is refused
    std::uint8_t rest : 6 = 0;    // so that any() reads no bit without a value
    std::uint16_t max_blocks = 0; // maximum, each on one SM at most; 0: the fastest number

    // For a batch that is enqueued, and then waited for. It reads and writes in stream order.
    void follow_the_stream() noexcept {
        order = source_order::stream;
        written = false;
    }

    // Whether an asynchronous call returns only after it has read a pageable source.
    bool is_source_read() const noexcept { return order == source_order::call; }
    // Whether an asynchronous call returns only after its pageable end has been read or is complete.
    bool is_awaited(bool to_device) const noexcept { return to_device ? is_source_read() : written; }
    // Whether there are preferences for the route, apart from `no_wait`. One comparison, because every copy makes it:
    // `all` has the bits that a preference has and its default lacks.
    bool any() const noexcept { return has_any(source_order::call); }
    bool any_but_order() const noexcept { return has_any(source_order::any); }
    // Outside of graphs, ferry rejects only copies whose route is forced, or that would wait although they must not. The
    // driver route serves all other copies.
    bool may_be_refused() const noexcept { return forced != route_kind::none && forced != route_kind::driver; }

private:
    bool has_any(source_order of_order) const noexcept {
        const copy_preferences all = {.forced = route_kind{0xff},
                                      .no_kernels = true,
                                      .is_urgent = true,
                                      .over_links = true,
                                      .order = of_order,
                                      .written = true,
                                      .max_blocks = 0xffff};
        return std::bit_cast<std::uint64_t>(*this) & std::bit_cast<std::uint64_t>(all);
    }
};

// The facts about a call that are known before the route of its copy is chosen, and are needed until the copy is
// enqueued.
struct call_facts {
    int context_device = -1; // the device of the context in which the copy runs
    copy_form form = copy_form::synchronous;
    bool is_captured = false;    // the copy becomes part of a graph
    bool is_stream_idle = false; // the earlier work on the stream is known to be complete
    // The earlier work is known to be complete, except for copies that are unordered with this copy: other copies of
    // its batch, or other parts of the same copy.
    bool is_source_final = false;
    // The pageable source may be read before the earlier work is complete: the caller permits it, and no unfinished copy
    // by ferry writes the source.
    bool may_read_early = false;
    bool has_command_room = false; // see small_uploads
    copy_preferences preferences = {};
};

struct copy_plan {
    route_kind route = route_kind::driver;
    // An end is on a device other than the context's. The driver checks addresses against the current context, so the
    // call must be the variant that names the context of each end (NVIDIA/cccl pull request 9997). Graphs do not
    // support that call.
    bool names_contexts = false;
    // The copy is synchronous and the call returns before the bytes have arrived. A kernel launch always does. The
    // driver's synchronous call does so after D2D, and after pageable H2D, whose last piece may still be in flight
    // (CUDA driver API, "API synchronization behavior").
    bool synchronise_after = false;
    // The driver's asynchronous call reads up to 2 MiB of a pageable source within the call, regardless of earlier work
    // on the stream (docs/driver.md). So ferry first waits for that work, which may write the source.
    bool wait_before = false;
    // The call may return only when the source has been read, or the destination is complete: the caller takes part in
    // the staged copy until it is complete, or waits for the stream after the driver's call.
    bool wait_in_the_call = false;
    // A staged copy without a kernel: copy-engine copies on the stream replace it. `blocks` is 0 if a kernel could not
    // serve.
    bool by_copies = false;
    // A staged copy of an array that kernels cannot access: the bytes pass through a buffer on the device.
    bool through_buffer = false;
    // Why the route that the caller forces cannot serve. Such a copy must be rejected.
    obstacle refused = obstacle::none;
    std::uint16_t blocks = 0;                // of a kernel, or of each staging kernel
    std::uint8_t reason = FERRY_REASON_LINE; // why this route
    // Staging threads were delayed, so staging was compared with the driver's call. The driver's call measures the
    // delay again.
    bool are_threads_late = false;
    // The copy would be staged if the threads were awake. The driver's call notes that, so that the next copies are.
    bool are_threads_asleep = false;
    obstacle why_not_staged = obstacle::none; // found while staging was prepared
    // For a copy over several links: the number of links, the maximum number of blocks per helper (0: no maximum), and
    // the share of the bytes that this device's own link transfers.
    std::uint16_t links = 1;
    std::uint16_t helper_blocks = 0;
    // A staged copy that has a kernel but can also run without it: how long the call waits for the kernel to start if
    // other kernels occupy the device. 0: it cannot run without the kernel.
    std::uint16_t start_patience_us = 0;
    double own_share = 1;
};

// An end without a device counts as an end on the context's device.
inline int device_of(const shape_end &end, int context_device) noexcept {
    return end.device < 0 ? context_device : end.device;
}
inline bool is_elsewhere(const shape_end &end, int context_device) noexcept {
    return end.device >= 0 && end.device != context_device;
}
inline bool leaves_device(const shape &shape, int context_device) noexcept {
    return is_elsewhere(shape.source, context_device) || is_elsewhere(shape.destination, context_device);
}

// Whether the driver's calls copy the memory as host memory. They copy memory of a host pool as device memory if the
// device of the context that the call names has access to the pool (docs/driver.md).
constexpr bool is_copied_as_host(memory_kind kind) noexcept {
    return is_host(kind) && kind != memory_kind::host_pool && kind != memory_kind::far_pinned;
}

// Whether the driver's asynchronous call reads the source before it returns. Between two host addresses, the call waits
// for the stream instead.
inline bool is_read_in_the_call(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pageable && !is_copied_as_host(shape.destination.kind);
}

// A copy of at most this many bytes is small: its caller may wait for the driver's call, or read the source itself.
constexpr std::uint64_t max_small_copy = std::uint64_t{1} << 20;
// If the source need not be read before the call returns, only a contiguous copy of at most this many bytes is read by
// its caller, who is occupied for about 25 us. Where no kernel can stage a copy, any small copy is.
constexpr std::uint64_t max_early_copy = std::uint64_t{256} << 10;

// Whether a copy of this size is staged on an idle stream without a prediction, because the driver's call would block
// the caller. That does not pay off if staging is many times slower, as on the software driver. With the cautious
// profile, it is at most 2.4 times slower than the driver.
inline bool is_worth_staging(std::uint64_t bytes, const direction_profile &profile) noexcept {
    constexpr std::uint64_t much_slower = 8;
    return bytes > max_small_copy && profile.staged_rate * much_slower > profile.driver_pageable_rate;
}

// Whether the driver has copied these contiguous bytes between pageable memory and an idle device before a staged copy
// would move its first byte. The number of staging threads and their delays do not matter.
inline bool is_too_small_to_stage(const shape &shape, const device_profile &profile) noexcept {
    const direction_profile &direction =
        profile[is_host(shape.source.kind) ? copy_direction::host_to_device : copy_direction::device_to_host];
    const std::uint64_t by_driver_ns = direction.driver_fixed_ns + shape.width * 1000 / direction.driver_pageable_rate;
    return by_driver_ns <= std::min(direction.staged_fixed_ns, profile.copies_fixed_ns);
}

// Whether the copy is between a file and host memory.
inline bool is_file_on_host(const shape &shape) noexcept {
    return shape.has_file() && is_host(shape.source.kind) && is_host(shape.destination.kind);
}

// Whether the source must be read before the call returns, even if earlier work on the stream is pending.
inline bool is_read_early(const shape &shape, const call_facts &call) noexcept {
    const memory_kind from = shape.source.kind;
    const bool is_file_written = shape.destination.file && is_host(from) && !is_pinned(from) && !shape.source.file;
    return call.preferences.is_source_read() && call.form == copy_form::asynchronous &&
           (is_read_in_the_call(shape) || from == memory_kind::far_pinned || is_file_written);
}

// Whether the caller may read the source for the copy, although the call need not have read the source when it returns.
inline bool may_be_read_early(const shape &shape, const call_facts &call) noexcept {
    return call.may_read_early && !call.preferences.is_urgent && shape.is_line() && shape.width <= max_early_copy;
}

// Whether the destination must be complete before the call returns.
inline bool is_written_in_the_call(const shape &shape, const call_facts &call) noexcept {
    const memory_kind to = shape.destination.kind;
    const bool is_pageable =
        to == memory_kind::pageable && (!is_copied_as_host(shape.source.kind) || shape.source.file);
    return call.preferences.written && call.form == copy_form::asynchronous &&
           (is_pageable || to == memory_kind::far_pinned);
}

inline bool has_far_end(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::far_pinned || shape.destination.kind == memory_kind::far_pinned;
}

// Whether the calling thread takes part in the copy if it is staged.
inline bool caller_helps(const shape &shape, const call_facts &call) noexcept {
    return call.form == copy_form::synchronous || is_read_early(shape, call) || is_written_in_the_call(shape, call);
}

// Returns the plan for the driver route, which serves all shapes.
inline copy_plan plan_for_driver(const shape &shape, const call_facts &call) noexcept {
    const bool returns_early =
        !is_copied_as_host(shape.destination.kind) &&
        (shape.source.kind != memory_kind::pinned || shape.destination.kind == memory_kind::managed);
    copy_plan plan;
    plan.names_contexts = !call.is_captured && leaves_device(shape, call.context_device);
    plan.synchronise_after = call.form == copy_form::synchronous && returns_early;
    plan.wait_before = call.form == copy_form::asynchronous && !call.is_captured && !call.is_stream_idle &&
                       !call.is_source_final && !call.may_read_early && is_read_in_the_call(shape) &&
                       !call.preferences.is_source_read();
    plan.wait_in_the_call =
        !call.is_captured && has_far_end(shape) && (is_read_early(shape, call) || is_written_in_the_call(shape, call));
    return plan;
}

inline bool is_pageable(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pageable || shape.destination.kind == memory_kind::pageable;
}

// Whether threads on the host must move the bytes at one end, because no device can access it.
inline bool needs_threads(const shape &shape) noexcept { return is_pageable(shape) || shape.has_file(); }

// Whether the copy is a contiguous copy without preferences and without pageable memory. Copy engines are fastest for
// such copies of any size.
inline bool needs_no_choice(const shape &shape, const copy_preferences &preferences) noexcept {
    return shape.is_line() && !preferences.any() && !preferences.no_wait && !needs_threads(shape);
}

// Whether the driver sends the bytes together with its commands, so that they wait in no copy engine's queue:
// concurrently with a copy of 512 MiB, such a contiguous copy took 15 to 39 us, and copies of 256 KiB waited 9.5 ms
// (H200).
constexpr std::uint64_t max_sent_with_commands = 65536;
inline bool is_sent_with_commands(const shape &shape) noexcept {
    return shape.source.kind == memory_kind::pageable && shape.destination.kind == memory_kind::device &&
           shape.is_line() && shape.width <= max_sent_with_commands;
}

// Whether the driver's call may read the source into its commands, which is the fastest way to read it early, even after
// other work. Such a call waits for nothing while the stream has room for its commands (small_uploads).
inline bool may_go_with_commands(const shape &shape, const call_facts &call) noexcept {
    return call.preferences.forced == route_kind::none && (is_read_early(shape, call) || call.may_read_early) &&
           is_sent_with_commands(shape) && !is_elsewhere(shape.destination, call.context_device);
}

inline copy_plan refuse_plan(obstacle why) noexcept {
    copy_plan plan;
    plan.route = route_kind::none;
    plan.refused = why;
    return plan;
}

} // namespace ferry
