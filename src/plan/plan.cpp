#include "plan/plan.h"

#include <algorithm>

#include "plan/predict.h"

namespace ferry {

namespace {

bool is_found(obstacle why) noexcept { return why != obstacle::none; }

// Managed memory counts as the device's: the driver and kernels alike fetch what is elsewhere.
copy_direction direction_of(const shape &shape, int context_device) noexcept {
    if (is_host(shape.source.kind)) return copy_direction::host_to_device;
    if (is_host(shape.destination.kind)) return copy_direction::device_to_host;
    const auto device_of = [&](const shape_end &end) noexcept { return end.device < 0 ? context_device : end.device; };
    return device_of(shape.source) == device_of(shape.destination) ? copy_direction::within_device
                                                                   : copy_direction::between_devices;
}

// Why kernels cannot run this copy at all.
obstacle kernel_obstacle(const shape &shape, const plan_facts &facts) noexcept {
    const auto of_reach = [](obstacle why) noexcept { return why == obstacle::managed ? obstacle::none : why; };
    if (facts.wishes.no_multiprocessors) return obstacle::forbidden;
    if (is_found(facts.kernels)) return facts.kernels;
    if (is_host(shape.source.kind) && is_host(shape.destination.kind)) return obstacle::host_to_host;
    if (shape.destination.array) return obstacle::array;
    if (const obstacle why = of_reach(facts.source_reach); is_found(why)) return why;
    return of_reach(facts.destination_reach);
}

// Why nothing is known of how long they would take.
obstacle prediction_obstacle(const shape &shape, const plan_facts &facts) noexcept {
    if (!facts.profile) return obstacle::not_measured;
    const bool is_managed = shape.source.kind == memory_kind::managed ||
                            shape.destination.kind == memory_kind::managed || facts.source_reach == obstacle::managed ||
                            facts.destination_reach == obstacle::managed;
    return is_managed ? obstacle::managed : obstacle::none;
}

struct prediction {
    double driver_ns, kernel_ns;
    std::uint16_t blocks;
};

prediction predict(const shape &shape, const plan_facts &facts) noexcept {
    const device_profile &profile = *facts.profile;
    const copy_direction direction = direction_of(shape, facts.context_device);
    const direction_profile &of_direction = profile[direction];
    const row_profile rows = rows_of(shape);
    const double bytes = rows.bytes();
    // Parts of words leave as little in flight on the link as single bytes.
    const unsigned access = rows.has_parts && direction == copy_direction::host_to_device ? 1 : rows.access;
    const unsigned blocks =
        blocks_for(of_direction, direction, bytes, access, facts.wishes.most_blocks, shape.source.array != nullptr);

    const bool is_pageable = shape.source.kind == memory_kind::pageable ||
                             shape.destination.kind == memory_kind::pageable ||
                             facts.source_reach == obstacle::pageable || facts.destination_reach == obstacle::pageable;
    const auto count = static_cast<double>(rows.count);
    double by_driver = count * driver_row_ns(of_direction, direction, rows),
           by_kernel = count * kernel_row_ns(of_direction, direction, rows, blocks);
    const auto limit = [&](double &ns, std::uint32_t rate) noexcept { ns = std::max(ns, bytes * 1000 / rate); };
    if (is_pageable) limit(by_driver, of_direction.driver_pageable_rate);
    if (rows.has_array && direction >= copy_direction::within_device) {
        limit(by_driver, profile.array_driver_rate);
        limit(by_kernel, array_kernel_rate(profile, rows.access));
    }
    const std::uint32_t driver_fixed_ns =
        goes_by_many_rows(direction, rows) ? profile.many_rows_fixed_ns : of_direction.driver_fixed_ns;
    return {driver_fixed_ns + by_driver, of_direction.kernel_fixed_ns + by_kernel, static_cast<std::uint16_t>(blocks)};
}

copy_plan plan_for_kernel(const plan_facts &facts, std::uint16_t blocks) noexcept {
    copy_plan plan;
    plan.route = route_kind::kernel;
    plan.synchronise_after = facts.form == copy_form::synchronous;
    plan.blocks = blocks;
    return plan;
}

copy_plan refuse_plan(obstacle why) noexcept {
    copy_plan plan;
    plan.route = route_kind::none;
    plan.refused = why;
    return plan;
}

// For a kernel that nothing was predicted of.
std::uint16_t cautious_blocks(const plan_facts &facts) noexcept {
    constexpr std::uint16_t few = 8;
    return facts.wishes.most_blocks ? std::min(facts.wishes.most_blocks, few) : few;
}

} // namespace

blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept {
    if (form == copy_form::synchronous || destination == memory_kind::pageable) return blocking::until_done;
    if (is_host(source) && is_host(destination)) return blocking::until_done;
    return source == memory_kind::pageable ? blocking::until_staged : blocking::no;
}

copy_plan choose_route(const shape &shape, const plan_facts &facts) noexcept {
    const copy_wishes &wishes = facts.wishes;
    if (wishes.forced == route_kind::driver) return plan_for_driver(shape, facts);
    const bool is_forced = wishes.forced != route_kind::none;
    if (is_forced && wishes.forced != route_kind::kernel) return refuse_plan(obstacle::no_route);
    const obstacle why_not = kernel_obstacle(shape, facts);
    if (is_found(why_not)) return is_forced ? refuse_plan(why_not) : plan_for_driver(shape, facts);

    const bool is_wanted = is_forced || wishes.is_urgent;
    if (!facts.profile)
        return is_wanted ? plan_for_kernel(facts, cautious_blocks(facts)) : plan_for_driver(shape, facts);
    if (!is_wanted && (needs_no_choice(shape, {}) || is_found(prediction_obstacle(shape, facts))))
        return plan_for_driver(shape, facts);
    const prediction predicted = predict(shape, facts);
    return is_wanted || predicted.kernel_ns * kernel_margin < predicted.driver_ns
               ? plan_for_kernel(facts, predicted.blocks)
               : plan_for_driver(shape, facts);
}

copy_forecast predict_copy(const shape &shape, const plan_facts &facts) noexcept {
    copy_forecast forecast;
    forecast.driver.route = route_kind::driver;
    forecast.kernel.route = route_kind::kernel;
    forecast.kernel.why_not = kernel_obstacle(shape, facts);
    const obstacle unknown = prediction_obstacle(shape, facts);
    const bool is_host_alone = is_host(shape.source.kind) && is_host(shape.destination.kind);
    if (is_found(unknown) || is_host_alone) {
        if (!is_found(forecast.kernel.why_not)) {
            forecast.kernel.why_not =
                facts.wishes.forced == route_kind::kernel || facts.wishes.is_urgent ? obstacle::none : unknown;
            forecast.kernel.blocks = choose_route(shape, facts).blocks;
        }
        return forecast;
    }
    const prediction predicted = predict(shape, facts);
    forecast.driver.predicted_ns = static_cast<std::uint64_t>(predicted.driver_ns);
    if (!is_found(forecast.kernel.why_not)) {
        forecast.kernel.predicted_ns = static_cast<std::uint64_t>(predicted.kernel_ns);
        forecast.kernel.blocks = predicted.blocks;
    }
    return forecast;
}

} // namespace ferry
