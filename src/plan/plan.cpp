#include "plan/plan.h"

#include <algorithm>

#include "plan/predict.h"
#include "plan/staged_chunks.h"

namespace ferry {

namespace {

// Whether the driver sends the bytes along with its commands, so that they wait in no copy engine's queue: beside a copy
// of 512 MiB such a line took 15 to 39 us, and lines of 256 KiB waited 9.5 ms (H200).
bool is_sent_with_commands(const shape &shape) noexcept {
    constexpr std::uint64_t longest = 65536;
    return shape.source.kind == memory_kind::pageable && shape.destination.kind == memory_kind::device &&
           shape.is_line() && shape.width <= longest;
}

} // namespace

// Longer lines fill the driver's memory for commands, 4 MiB, and calls then wait for the stream (H200).
bool goes_with_commands(const shape &shape, const plan_facts &facts) noexcept {
    constexpr std::uint64_t longest = 4096;
    return facts.preferences.forced == route_kind::none && is_read_early(shape, facts) &&
           is_sent_with_commands(shape) && shape.width <= longest &&
           !is_elsewhere(shape.destination, facts.context_device);
}

bool can_stage_by_copies(const shape &shape, const plan_facts &facts) noexcept {
    const std::uint64_t longest = most_copies * facts.slot_size;
    if (!facts.has_stream_waits || !is_pageable(shape) || facts.is_captured || shape.bytes() > longest) return false;
    staged_box box = {};
    box.width = shape.width;
    box.height = shape.height;
    box.depth = shape.depth;
    box.to_device = is_host(shape.source.kind);
    box.by_copies = true;
    return staging(box, facts.slot_size).chunk_count() <= most_copies; // rows may not fill their slots
}

namespace {

bool is_obstacle(obstacle why) noexcept { return why != obstacle::none; }

// Managed memory counts as the device's, because both the driver and kernels fetch what is elsewhere.
copy_direction direction_of(const shape &shape, int context_device) noexcept {
    if (is_host(shape.source.kind)) return copy_direction::host_to_device;
    if (is_host(shape.destination.kind)) return copy_direction::device_to_host;
    return device_of(shape.source, context_device) == device_of(shape.destination, context_device)
               ? copy_direction::within_device
               : copy_direction::between_devices;
}

// Why kernels cannot run this copy at all.
obstacle kernel_obstacle(const shape &shape, const plan_facts &facts) noexcept {
    const auto of_reach = [](obstacle why) noexcept { return why == obstacle::managed ? obstacle::none : why; };
    if (facts.preferences.no_kernels) return obstacle::forbidden;
    if (is_obstacle(facts.kernels)) return facts.kernels;
    if (is_host(shape.source.kind) && is_host(shape.destination.kind)) return obstacle::host_to_host;
    if (is_pageable(shape) && !facts.reaches_pageable) return obstacle::pageable;
    if (shape.destination.array) return obstacle::array;
    if (const obstacle why = of_reach(facts.source_reach); is_obstacle(why)) return why;
    return of_reach(facts.destination_reach);
}

// Whether the destination is rows of pinned memory with gaps, which threads write faster than the link can scatter
// them.
bool scatters_rows(const shape &shape) noexcept {
    const shape_end &to = shape.destination;
    return is_pinned(to.kind) && !to.array && shape.height > 1 && to.row_pitch != shape.width;
}

// Whether staging has to do without a kernel.
bool needs_copies(const plan_facts &facts) noexcept {
    return facts.preferences.no_kernels || is_obstacle(facts.kernels) || is_obstacle(facts.staged_reach);
}

// Why the copy cannot be staged. Pinned memory is staged only for the sake of scattered rows.
obstacle staged_obstacle(const shape &shape, const plan_facts &facts) noexcept {
    if (is_host(shape.source.kind) && is_host(shape.destination.kind)) return obstacle::host_to_host;
    if (has_far_end(shape)) return obstacle::other_device;
    if (!is_pageable(shape) && !scatters_rows(shape)) return obstacle::not_pageable;
    if (is_pageable(shape) && facts.reaches_pageable) return obstacle::direct;
    const bool needs_kernel = !can_stage_by_copies(shape, facts);
    if (needs_kernel && facts.preferences.no_kernels) return obstacle::forbidden;
    if (is_obstacle(facts.kernels) && (needs_kernel || is_obstacle(facts.staging))) return facts.kernels;
    if (is_obstacle(facts.staging)) return facts.staging;
    const shape_end &end = is_host(shape.source.kind) ? shape.destination : shape.source;
    if (is_elsewhere(end, facts.context_device)) return obstacle::other_device;
    if (end.kind == memory_kind::managed) return obstacle::managed;
    return needs_kernel ? facts.staged_reach : obstacle::none;
}

// Why the time of the routes cannot be predicted.
obstacle prediction_obstacle(const shape &shape, const plan_facts &facts) noexcept {
    if (!facts.profile) return obstacle::not_measured;
    const bool is_managed = shape.source.kind == memory_kind::managed ||
                            shape.destination.kind == memory_kind::managed || facts.source_reach == obstacle::managed ||
                            facts.destination_reach == obstacle::managed;
    return is_managed ? obstacle::managed : obstacle::none;
}

struct prediction {
    double driver_ns, kernel_ns, staged_ns, relayed_ns;
    std::uint16_t blocks;
    bool by_copies; // how it is staged
};

std::uint32_t threads_at(const shape &shape, const plan_facts &facts) noexcept {
    return facts.staging_threads + caller_helps(shape, facts);
}

struct staged_prediction {
    double ns;
    bool by_copies;
};

// A staged copy takes as long as the link, or as the threads at the host's rows, whichever is slower.
staged_prediction predict_staged(const shape &shape, const plan_facts &facts, const direction_profile &profile,
                                 const row_profile &rows) noexcept {
    const double bytes = rows.bytes();
    const shape_end &host = is_host(shape.source.kind) ? shape.source : shape.destination;
    const bool has_gaps = shape.height > 1 && host.row_pitch != shape.width;
    const double threads =
        std::clamp(bytes / static_cast<double>(min_chunk), 1.0, static_cast<double>(threads_at(shape, facts)));
    const double rows_ns = has_gaps ? static_cast<double>(rows.count) * profile.staged_row_ns : 0;
    const double by_threads = (bytes * 1000 / profile.staged_thread_rate + rows_ns) / threads;
    const double by_ring = profile.staged_fixed_ns + std::max(bytes * 1000 / profile.staged_rate, by_threads) +
                           static_cast<double>(staging_delay(shape, facts, false));
    const device_profile &whole = *facts.profile;
    const double by_copies = whole.copies_fixed_ns + std::max(bytes * 1000 / whole.copies_rate, by_threads) +
                             static_cast<double>(staging_delay(shape, facts, true));
    const bool is_kernel_meant = facts.preferences.is_urgent || facts.preferences.forced != route_kind::none;
    const bool takes_copies =
        can_stage_by_copies(shape, facts) && (needs_copies(facts) || (!is_kernel_meant && by_copies < by_ring));
    return {takes_copies ? by_copies : by_ring, takes_copies};
}

// Both halves of a relayed copy run at the same time, so the slower one counts. In a slot the rows have no gaps.
double predict_relayed(const shape &shape, const plan_facts &facts) noexcept {
    const device_profile &profile = *facts.profile;
    const bool is_measured = facts.pair.relay_rate != 0;
    const std::uint32_t rate = is_measured ? facts.pair.relay_rate : profile.relay_rate;
    const auto half_ns = [&](copy_direction direction, bool is_source) noexcept {
        ferry::shape half = shape;
        shape_end &slot = is_source ? half.destination : half.source;
        slot = {memory_kind::pinned, -1, nullptr, 0, 0, 0, {}, shape.width, shape.height};
        const row_profile rows = rows_of(half);
        return static_cast<double>(rows.count) * driver_row_ns(profile[direction], direction, rows);
    };
    return (is_measured ? facts.pair.relay_fixed_ns : profile.relay_fixed_ns) +
           std::max({half_ns(copy_direction::device_to_host, true), half_ns(copy_direction::host_to_device, false),
                     static_cast<double>(shape.bytes()) * 1000 / rate});
}

double predict_multilink(const shape &shape, const plan_facts &facts) noexcept {
    const direction_profile &profile = (*facts.profile)[direction_of(shape, facts.context_device)];
    constexpr double start_of_helpers_ns = 20'000;
    return profile.kernel_fixed_ns + start_of_helpers_ns +
           static_cast<double>(shape.bytes()) * 1000 / profile.kernel_line_rate * facts.own_share;
}

prediction predict(const shape &shape, const plan_facts &facts) noexcept {
    const device_profile &profile = *facts.profile;
    const copy_direction direction = direction_of(shape, facts.context_device);
    const direction_profile &of_direction = profile[direction];
    const row_profile rows = rows_of(shape);
    const double bytes = rows.bytes();
    // Partial words keep as little in flight on the link as single bytes do.
    const unsigned access = rows.has_parts && direction == copy_direction::host_to_device ? 1 : rows.access;
    const unsigned blocks =
        blocks_for(of_direction, direction, bytes, access, facts.preferences.max_blocks, shape.source.array != nullptr);

    const bool is_pageable = shape.source.kind == memory_kind::pageable ||
                             shape.destination.kind == memory_kind::pageable ||
                             facts.source_reach == obstacle::pageable || facts.destination_reach == obstacle::pageable;
    const auto count = static_cast<double>(rows.count);
    double by_driver = count * driver_row_ns(of_direction, direction, rows),
           by_kernel = count * kernel_row_ns(of_direction, direction, rows, blocks);
    const auto limit = [&](double &ns, std::uint32_t rate) noexcept { ns = std::max(ns, bytes * 1000 / rate); };
    if (is_pageable && !facts.reaches_pageable) limit(by_driver, of_direction.driver_pageable_rate);
    const bool has_no_access = facts.relay == obstacle::none;
    std::uint32_t driver_fixed_ns =
        goes_by_many_rows(direction, rows) ? profile.many_rows_fixed_ns : of_direction.driver_fixed_ns;
    if (has_no_access) {
        limit(by_driver, facts.pair.bounce_rate ? facts.pair.bounce_rate : profile.bounce_rate);
    } else if (facts.pair.direct_rate) {
        // Rows and kernels were not measured. Over the same link they are no faster than a line.
        driver_fixed_ns = facts.pair.direct_fixed_ns;
        if (rows.is_line) by_driver = 0;
        limit(by_driver, facts.pair.direct_rate);
        limit(by_kernel, facts.pair.direct_rate);
    }
    if (rows.has_array && direction >= copy_direction::within_device) {
        limit(by_driver, profile.array_driver_rate);
        limit(by_kernel, array_kernel_rate(profile, rows.access));
    }
    const staged_prediction staged = predict_staged(shape, facts, of_direction, rows);
    return {driver_fixed_ns + by_driver,
            of_direction.kernel_fixed_ns + by_kernel,
            staged.ns,
            has_no_access ? predict_relayed(shape, facts) : 0,
            static_cast<std::uint16_t>(blocks),
            staged.by_copies};
}

copy_plan plan_for_kernel(const plan_facts &facts, std::uint16_t blocks) noexcept {
    copy_plan plan;
    plan.route = route_kind::kernel;
    plan.synchronise_after = facts.form == copy_form::synchronous;
    plan.blocks = blocks;
    return plan;
}

std::uint16_t staged_blocks(const shape &shape, const plan_facts &facts) noexcept {
    const std::uint32_t blocks = blocks_for_threads(threads_at(shape, facts), is_host(shape.source.kind)),
                        max_blocks = facts.preferences.max_blocks;
    return static_cast<std::uint16_t>(max_blocks ? std::min(max_blocks, blocks) : blocks);
}

bool is_staged_by_copies(const shape &shape, const plan_facts &facts) noexcept {
    if (!can_stage_by_copies(shape, facts)) return false;
    if (needs_copies(facts)) return true;
    return facts.profile && facts.start_delay_ns != 0 && predict(shape, facts).by_copies;
}

copy_plan plan_for_relay(const plan_facts &facts) noexcept {
    copy_plan plan;
    plan.route = route_kind::relayed;
    plan.synchronise_after = facts.form == copy_form::synchronous;
    return plan;
}

copy_plan plan_for_links(const shape &shape, const plan_facts &facts) noexcept {
    copy_plan plan;
    plan.route = route_kind::multilink;
    plan.synchronise_after = facts.form == copy_form::synchronous;
    plan.blocks = blocks_of_a_link(shape);
    if (facts.preferences.max_blocks) plan.blocks = std::min(plan.blocks, facts.preferences.max_blocks);
    return plan;
}

copy_plan plan_for_buffer() noexcept {
    copy_plan plan;
    plan.route = route_kind::buffered;
    return plan;
}

// The blocks of a kernel whose time was not predicted.
std::uint16_t cautious_blocks(const plan_facts &facts) noexcept {
    constexpr std::uint16_t few = 8;
    return facts.preferences.max_blocks ? std::min(facts.preferences.max_blocks, few) : few;
}

} // namespace

copy_plan plan_for_staging(const shape &shape, const plan_facts &facts) noexcept {
    copy_plan plan;
    plan.route = route_kind::staged;
    plan.synchronise_after = facts.form == copy_form::synchronous;
    plan.wait_in_the_call = facts.form == copy_form::asynchronous && caller_helps(shape, facts);
    plan.by_copies = is_staged_by_copies(shape, facts);
    plan.blocks = plan.by_copies && needs_copies(facts) ? std::uint16_t{0} : staged_blocks(shape, facts);
    if (!plan.by_copies && facts.multilink == obstacle::none) plan.links = std::min(facts.links, max_staged_links);
    return plan;
}

blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept {
    if (form == copy_form::synchronous || destination == memory_kind::pageable) return blocking::until_done;
    if (is_copied_as_host(source) && is_copied_as_host(destination)) return blocking::until_done;
    return source == memory_kind::pageable ? blocking::until_staged : blocking::no;
}

namespace {

// Predicts at most once.
class lazy_prediction {
public:
    lazy_prediction(const shape &shape, const plan_facts &facts) noexcept : shape_(shape), facts_(facts) {}
    const prediction &operator*() noexcept {
        if (!is_made_) made_ = predict(shape_, facts_);
        is_made_ = true;
        return made_;
    }

private:
    const shape &shape_;
    const plan_facts &facts_;
    prediction made_ = {};
    bool is_made_ = false;
};

// Whether to stage a copy of pageable memory that can be staged. Behind other work on a stream it always is, because the
// driver would make the caller wait for that work, and the work may wait for the caller. On an idle stream the driver
// makes the caller wait for the copy itself. That is worth it for little memory, where staging is late, and where staging
// is much slower.
bool is_staged(const shape &shape, const plan_facts &facts, lazy_prediction &predicted) noexcept {
    const bool may_be_read = facts.form == copy_form::synchronous || facts.is_stream_idle ||
                             is_read_early(shape, facts) || (facts.is_source_final && is_read_in_the_call(shape));
    if (facts.preferences.is_urgent) return !may_be_read || !is_sent_with_commands(shape);
    if (facts.form == copy_form::asynchronous) {
        if (!may_be_read || !facts.profile) return true;
        const direction_profile &profile = (*facts.profile)[direction_of(shape, facts.context_device)];
        if (is_worth_staging(shape.bytes(), profile) && staging_delay(shape, facts, false) == 0 && !needs_copies(facts))
            return true;
    }
    return facts.profile && (*predicted).staged_ns * kernel_margin < (*predicted).driver_ns;
}

// Whether to stage rows of pinned memory, which the driver and kernels can copy too.
bool are_rows_staged(const shape &shape, const plan_facts &facts, bool kernels_serve,
                     lazy_prediction &predicted) noexcept {
    if (!facts.profile || is_obstacle(prediction_obstacle(shape, facts))) return false;
    // From rows that lie apart on the device, or have odd widths, the staging kernel is slower than predicted: 64 Ki
    // rows of 3 B took 117 us, against the driver's 88 us, and rows of 4 B at a pitch of 8 on both sides took 201 us.
    // The threads are slower than predicted at rows far apart: 190 us at a pitch of 512 B (H200).
    constexpr std::uint64_t cache_line = 64;
    const shape_end &device = is_host(shape.source.kind) ? shape.destination : shape.source;
    if (shape.destination.row_pitch > cache_line) return false;
    const bool has_gaps = device.row_pitch != shape.width || (shape.depth > 1 && device.slice_height != shape.height);
    if (has_gaps || shape.width % 4 != 0) return false;
    const prediction &of = *predicted;
    return of.staged_ns * kernel_margin < (kernels_serve ? std::min(of.driver_ns, of.kernel_ns) : of.driver_ns);
}

// The caller asks for kernels, whatever is predicted.
bool is_kernel_wanted(const copy_preferences &preferences) noexcept {
    return preferences.forced == route_kind::kernel || preferences.is_urgent;
}

} // namespace

ranked_routes rank_routes(const shape &shape, const plan_facts &facts) noexcept {
    const copy_preferences &preferences = facts.preferences;
    ranked_routes ranked;
    const auto because = [](copy_plan plan, std::uint8_t reason) noexcept {
        plan.reason = reason;
        return plan;
    };
    if (preferences.forced == route_kind::relayed) {
        const bool can_be = facts.relay == obstacle::none || facts.relay == obstacle::direct_access;
        return ranked.add(can_be ? because(plan_for_relay(facts), FERRY_REASON_FORCED) : refuse_plan(facts.relay));
    }
    if (preferences.forced > route_kind::staged) return ranked.add(refuse_plan(obstacle::no_route));
    const bool is_driver_forced = preferences.forced == route_kind::driver,
               is_staging_forced = preferences.forced == route_kind::staged;
    const obstacle why_not_staged = is_driver_forced ? obstacle::forbidden : staged_obstacle(shape, facts);
    const obstacle why_not_kernel =
        is_driver_forced || is_staging_forced ? obstacle::forbidden : kernel_obstacle(shape, facts);
    lazy_prediction predicted(shape, facts);
    if (is_staging_forced)
        return ranked.add(is_obstacle(why_not_staged) ? refuse_plan(why_not_staged)
                                                      : because(plan_for_staging(shape, facts), FERRY_REASON_FORCED));
    if (preferences.forced == route_kind::kernel && is_obstacle(why_not_kernel))
        return ranked.add(refuse_plan(why_not_kernel));
    if (preferences.forced == route_kind::none && facts.multilink == obstacle::none && !is_pageable(shape))
        return ranked.add(because(plan_for_links(shape, facts), FERRY_REASON_MULTILINK));
    if (goes_with_commands(shape, facts))
        return ranked.add(because(plan_for_driver(shape, facts), FERRY_REASON_SOURCE_READ));
    if (preferences.forced == route_kind::none && is_read_early(shape, facts) && !facts.is_stream_idle &&
        shape.bytes() <= largest_buffered)
        ranked.add(because(plan_for_buffer(), FERRY_REASON_SOURCE_READ));
    if (preferences.forced == route_kind::none && !is_obstacle(why_not_staged)) {
        const bool is_taken =
            is_pageable(shape)
                ? is_staged(shape, facts, predicted)
                : !preferences.is_urgent && are_rows_staged(shape, facts, !is_obstacle(why_not_kernel), predicted);
        const auto is_faster = [&] {
            return facts.profile && (*predicted).staged_ns * kernel_margin < (*predicted).driver_ns;
        };
        if (is_taken)
            ranked.add(because(plan_for_staging(shape, facts), preferences.is_urgent ? FERRY_REASON_URGENT
                                                               : is_faster()         ? FERRY_REASON_PREDICTED
                                                                                     : FERRY_REASON_NO_WAIT));
    }
    if (facts.relay == obstacle::none && facts.profile && preferences.forced == route_kind::none &&
        (*predicted).relayed_ns * kernel_margin < (*predicted).driver_ns)
        ranked.add(because(plan_for_relay(facts), FERRY_REASON_PREDICTED));
    if (!is_obstacle(why_not_kernel)) {
        const bool is_wanted = is_kernel_wanted(preferences);
        const bool is_predicted = facts.profile && !needs_no_choice(shape, {}) &&
                                  !is_obstacle(prediction_obstacle(shape, facts)) &&
                                  (*predicted).kernel_ns * kernel_margin < (*predicted).driver_ns;
        if (is_wanted || is_predicted)
            ranked.add(because(plan_for_kernel(facts, facts.profile ? (*predicted).blocks : cautious_blocks(facts)),
                               preferences.forced == route_kind::kernel ? FERRY_REASON_FORCED
                               : preferences.is_urgent                  ? FERRY_REASON_URGENT
                                                                        : FERRY_REASON_PREDICTED));
    }
    if (preferences.forced == route_kind::kernel) return ranked;
    const bool is_only =
        is_obstacle(why_not_staged) && is_obstacle(facts.relay) &&
        (is_obstacle(why_not_kernel) || !facts.profile || is_obstacle(prediction_obstacle(shape, facts)));
    return ranked.add(because(plan_for_driver(shape, facts), is_driver_forced             ? FERRY_REASON_FORCED
                                                             : is_only                    ? FERRY_REASON_ONLY
                                                             : needs_no_choice(shape, {}) ? FERRY_REASON_LINE
                                                                                          : FERRY_REASON_PREDICTED));
}

obstacle veto(const shape &shape, const plan_facts &facts, route_kind route) noexcept {
    if (route == route_kind::staged) return staged_obstacle(shape, facts);
    if (route != route_kind::kernel) return obstacle::none;
    const obstacle why = kernel_obstacle(shape, facts);
    return is_obstacle(why) || is_kernel_wanted(facts.preferences) ? why : prediction_obstacle(shape, facts);
}

copy_plan refuse_plan(obstacle why) noexcept {
    copy_plan plan;
    plan.route = route_kind::none;
    plan.refused = why;
    return plan;
}

copy_forecast predict_copy(const shape &shape, const plan_facts &facts) noexcept {
    copy_forecast forecast;
    forecast.driver.route = route_kind::driver;
    forecast.kernel.route = route_kind::kernel;
    forecast.staged.route = route_kind::staged;
    forecast.relayed.route = route_kind::relayed;
    forecast.relayed.why_not = facts.relay;
    forecast.multilink.route = route_kind::multilink;
    forecast.multilink.why_not = facts.multilink;
    forecast.kernel.why_not = kernel_obstacle(shape, facts);
    forecast.staged.why_not = staged_obstacle(shape, facts);
    if (!is_obstacle(forecast.staged.why_not)) forecast.staged.blocks = plan_for_staging(shape, facts).blocks;
    const obstacle unknown = prediction_obstacle(shape, facts);
    const bool is_host_alone = is_host(shape.source.kind) && is_host(shape.destination.kind);
    if (is_obstacle(unknown) || is_host_alone) {
        if (!is_obstacle(forecast.kernel.why_not)) {
            forecast.kernel.why_not = facts.preferences.forced == route_kind::kernel || facts.preferences.is_urgent
                                          ? obstacle::none
                                          : unknown;
            forecast.kernel.blocks = plan_copy(shape, facts).blocks;
        }
        return forecast;
    }
    const prediction predicted = predict(shape, facts);
    forecast.driver.predicted_ns = static_cast<std::uint64_t>(predicted.driver_ns);
    if (!is_obstacle(forecast.kernel.why_not)) {
        forecast.kernel.predicted_ns = static_cast<std::uint64_t>(predicted.kernel_ns);
        forecast.kernel.blocks = predicted.blocks;
    }
    if (!is_obstacle(forecast.staged.why_not))
        forecast.staged.predicted_ns = static_cast<std::uint64_t>(predicted.staged_ns);
    forecast.relayed.predicted_ns = static_cast<std::uint64_t>(predicted.relayed_ns);
    if (!is_obstacle(facts.multilink))
        forecast.multilink.predicted_ns = static_cast<std::uint64_t>(predict_multilink(shape, facts));
    return forecast;
}

} // namespace ferry
