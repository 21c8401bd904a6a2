// Explains a copy through the same pipeline that runs it.
#include <algorithm>
#include <cstdio>

#include "exec/driver_parts.h"
#include "submit/copy.h"
#include "submit/copy_pipeline.h"
#include "submit/several_devices.h"

namespace ferry {

namespace {

// An array without a stated device is on the context's device. Managed and host memory belong to no device.
std::int32_t device_of(const shape_end &end, memory_kind kind, int context_device) noexcept {
    if (kind == memory_kind::array) return device_of(end, context_device);
    return kind == memory_kind::device ? end.device : -1;
}

// Every obstacle has its number in ferry.h, except those that only batches have.
static_assert(static_cast<int>(obstacle::none) == FERRY_OBSTACLE_NONE &&
              static_cast<int>(obstacle::read_only) == FERRY_OBSTACLE_READ_ONLY &&
              static_cast<int>(obstacle::managed) == FERRY_OBSTACLE_MANAGED &&
              static_cast<int>(obstacle::direct) == FERRY_OBSTACLE_DIRECT &&
              static_cast<int>(obstacle::captured) == FERRY_OBSTACLE_CAPTURED);

// Predicts the time of each route. In `shape` the kinds of memory are those that the driver reports.
error forecast(ferry_instance &instance, const shape &shape, const prepared_copy &prepared, resolved_ends &ends,
               ferry_explanation &found) noexcept {
    plan_facts all = prepared.facts;
    kernel_views seen;
    begin_choice(instance, shape, prepared.choice.wanted, all);
    if (error failed = look_up_views(instance, shape, ends, prepared.choice.wanted, all, seen)) return failed;
    if (error failed = look_at_access(instance, shape, all)) return failed;
    if (error failed = look_at_links(instance, shape, prepared.choice.wanted, all)) return failed;
    if (is_pageable(prepared.shape)) all.staging = prepared.facts.staging; // choose has tried to stage
    const copy_forecast expected = predict_copy(shape, all);
    found.driver_ns = expected.driver.predicted_ns;
    found.kernel_ns = expected.kernel.predicted_ns;
    found.kernel_obstacle = static_cast<std::int32_t>(expected.kernel.why_not);
    found.staged_ns = expected.staged.predicted_ns;
    found.staged_obstacle = static_cast<std::int32_t>(expected.staged.why_not);
    found.relay_ns = expected.relayed.predicted_ns;
    found.multilink_ns = expected.multilink.predicted_ns;
    found.multilink_obstacle = static_cast<std::int32_t>(expected.multilink.why_not);
    found.relay_obstacle = static_cast<std::int32_t>(expected.relayed.why_not);
    if (found.staged_ns)
        found.staging_delay_ns =
            staging_delay(shape, all, is_pageable(shape) && plan_for_staging(shape, all).by_copies);
    return {};
}

} // namespace

error explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                   ferry_explanation &found) noexcept {
    static_assert(static_cast<int>(blocking::no) == FERRY_BLOCKS_NO &&
                  static_cast<int>(blocking::until_staged) == FERRY_BLOCKS_UNTIL_STAGED &&
                  static_cast<int>(blocking::until_done) == FERRY_BLOCKS_UNTIL_DONE);
    found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    const auto explain = [&](const prepared_copy &prepared) noexcept -> error {
        const auto &[shape, ends, facts, plan, choice, views] = prepared;
        resolved_ends known_ends = ends;
        memory_kind source = shape.source.kind, destination = shape.destination.kind;
        if (error failed = know_kind(instance.cu, shape.source, known_ends.source, source)) return failed;
        if (error failed = know_kind(instance.cu, shape.destination, known_ends.destination, destination))
            return failed;
        ferry::shape known = shape;
        if (is_host(known.source.kind)) known.source.kind = source;
        if (is_host(known.destination.kind)) known.destination.kind = destination;
        if (leaves_device(known, facts.context_device)) {
            if (error failed = look_up_pool_ends(instance, facts.context_device, known)) return failed;
            if (is_host(known.source.kind)) source = known.source.kind;
            if (is_host(known.destination.kind)) destination = known.destination.kind;
        }
        const bool is_synchronous = form == copy_form::synchronous;
        bool by_kernel = false;
        const auto add_call = [&](memory_kind source, memory_kind destination, const planned_copy &call) noexcept {
            const copy_plan &plan = call.plan;
            const bool by_driver = plan.route == route_kind::driver;
            const blocking waits = is_synchronous                       ? blocking::until_done
                                   : by_driver && plan.wait_in_the_call ? blocking::until_done
                                   : by_driver                          ? blocking_of(source, destination, form)
                                   : !plan.wait_in_the_call             ? blocking::no
                                   : call.shape.destination.kind == memory_kind::pageable ? blocking::until_done
                                                                                          : blocking::until_staged;
            const bool is_staged = plan.route == route_kind::staged;
            found.blocks = std::max(found.blocks, static_cast<std::int32_t>(waits));
            found.synchronises |= plan.synchronise_after || plan.wait_before || (by_driver && plan.wait_in_the_call);
            if (static_cast<std::int32_t>(plan.route) >= found.route) {
                found.route = static_cast<std::int32_t>(plan.route);
                found.reason = plan.reason;
            }
            if (!plan.by_copies)
                found.max_sms =
                    std::max(found.max_sms, is_staged ? blocks_on_each_link(plan.blocks, plan.links) : plan.blocks);
            const bool helps = is_synchronous || plan.wait_in_the_call;
            if (plan.route == route_kind::multilink) {
                const link_shares shares = share_links(call.shape, call.facts.links, call.facts.own_share, plan.blocks,
                                                       call.facts.helper_blocks, !call.facts.preferences.is_urgent);
                found.links = std::max<std::uint32_t>(found.links, call.facts.links);
                found.helper_sms = std::max(found.helper_sms, shares.of_helper);
                found.engine_bytes += shares.by_engine;
            }
            if (is_staged && plan.links > 1) {
                found.links = std::max<std::uint32_t>(found.links, plan.links);
                found.helper_sms = found.max_sms;
            }
            by_kernel |= plan.route == route_kind::kernel || plan.route == route_kind::multilink ||
                         (is_staged && !plan.by_copies);
            if (is_staged) found.threads = instance.staging_threads + (helps ? 1u : 0u);
            ++found.calls;
        };
        if (error failed = forecast(instance, known, prepared, known_ends, found)) return failed;
        const copy_site site = prepared.site(stream);
        const auto add = [&](const planned_copy &call) noexcept -> error {
            if (&call.shape == &prepared.shape)
                add_call(source, destination, call);
            else
                add_call(call.shape.source.kind, call.shape.destination.kind, call);
            return check_capture(instance, call, site);
        };
        if (error failed = for_each_planned_call(instance, prepared.planned(), site, add)) return failed;
        std::snprintf(found.driver_call, sizeof found.driver_call, "%s",
                      by_kernel ? "cuLaunchKernel"
                      : found.route == FERRY_ROUTE_STAGED || found.route == FERRY_ROUTE_RELAYED
                          ? "cuMemcpy3DAsync"
                          : driver_call_name(plan, form));
        found.context_device = facts.context_device;
        const bool is_pair_measured = rates_between(instance, known, facts.context_device) != pair_rates{};
        found.profile = is_pair_measured ? FERRY_PROFILE_MEASURED
                                         : origin_of(instance.profiles.of(facts.context_device),
                                                     instance.devices[facts.context_device].info);
        found.source_memory = public_kind(source);
        found.source_device = device_of(shape.source, source, facts.context_device);
        found.destination_memory = public_kind(destination);
        found.destination_device = device_of(shape.destination, destination, facts.context_device);
        found.width = shape.width;
        found.height = shape.height;
        found.depth = shape.depth;
        return {};
    };
    return prepare_copy(instance, copy, form, stream, purpose::explain, explain);
}

} // namespace ferry
