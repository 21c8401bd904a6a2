// Explains a copy: prints the steps that run_step would run.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "routes/driver.h"
#include "routes/ranking.h"
#include "submit/copy.h"
#include "submit/run_step.h"

namespace ferry {

namespace {

// An array without a stated device is on the context's device. Managed and host memory belong to no device.
std::int32_t device_of(const shape_end &end, memory_kind kind, int context_device) noexcept {
    if (kind == memory_kind::array) return device_of(end, context_device);
    return kind == memory_kind::device ? end.device : -1;
}

static_assert(static_cast<int>(blocking::no) == FERRY_BLOCKS_NO &&
              static_cast<int>(blocking::until_staged) == FERRY_BLOCKS_UNTIL_STAGED &&
              static_cast<int>(blocking::until_done) == FERRY_BLOCKS_UNTIL_DONE);

// What the driver reports about the ends, regardless of the caller's statements.
struct reported_ends {
    ferry::shape shape; // its kinds of host memory are as reported by the driver
    memory_kind source, destination;
};

error look_up_kinds(ferry_instance &instance, const copy_step &step, resolved_ends &ends,
                    reported_ends &known) noexcept {
    const shape &stated = step.shape;
    known = {stated, stated.source.kind, stated.destination.kind};
    if (error failed = know_kind(instance.cu, stated.source, ends.source, known.source)) return failed;
    if (error failed = know_kind(instance.cu, stated.destination, ends.destination, known.destination)) return failed;
    memory_kind &source = known.shape.source.kind, &destination = known.shape.destination.kind;
    if (is_host(source)) source = known.source;
    if (is_host(destination)) destination = known.destination;
    if (!leaves_device(known.shape, step.call.context_device)) return {};
    if (error failed = look_up_pool_ends(instance, step.call.context_device, known.shape)) return failed;
    if (is_host(source)) known.source = source;
    if (is_host(destination)) known.destination = destination;
    return {};
}

// Predicts the time of each route.
error print_forecasts(ferry_instance &instance, const shape &known, const prepared_copy &prepared, resolved_ends &ends,
                      ferry_explanation &found) noexcept {
    const CUcontext context = prepared.choice.wanted;
    plan_facts facts = facts_of(instance, known, context, prepared.step.call);
    kernel_views seen;
    if (error failed = look_up_views(instance, known, ends, context, facts, seen)) return failed;
    if (error failed = look_up_for_routes(instance, known, context, facts)) return failed;
    if (needs_threads(prepared.step.shape)) facts.staging.why_not = prepared.step.plan.why_not_staged;
    const copy_forecast expected = predict_copy(known, facts);
    for (const route *const each : all_routes) {
        const route_forecast &forecast = expected[each->kind];
        const auto ns = entry_of(each->kind).ns;
        if (ns) found.*ns = forecast.predicted_ns;
        if (each->obstacle_field) found.*each->obstacle_field = static_cast<std::int32_t>(forecast.why_not);
        found.staging_delay_ns += forecast.delay_ns;
    }
    return {};
}

// Adds one step to the explanation. For several steps, the explanation has the route with the highest number.
void print_step(const ferry_instance &instance, const copy_step &step, memory_kind source, memory_kind destination,
                ferry_explanation &found) noexcept {
    const copy_plan &plan = step.plan;
    const route &by = *find_route(plan.route);
    const bool by_driver = plan.route == route_kind::driver;
    const blocking blocks = blocking_of(step.shape, step.call, plan, source, destination);
    found.blocks = std::max(found.blocks, static_cast<std::int32_t>(blocks));
    found.synchronises |= plan.synchronise_after || plan.wait_before || (by_driver && plan.wait_in_the_call);
    const char *const name = by.call_name(step);
    const bool is_first = static_cast<std::int32_t>(plan.route) >= found.route;
    if (is_first) {
        found.route = static_cast<std::int32_t>(plan.route);
        found.reason = plan.reason;
    }
    if (name == launch_call || (is_first && std::strcmp(found.driver_call, launch_call) != 0)) // a launch comes first
        std::snprintf(found.driver_call, sizeof found.driver_call, "%s", name);
    if (by.explain) by.explain(instance, step, found);
    ++found.calls;
}

void print_ends(const ferry_instance &instance, const copy_step &step, const reported_ends &known,
                ferry_explanation &found) noexcept {
    const int device = step.call.context_device;
    found.context_device = device;
    const bool is_pair_measured = rates_between(instance, known.shape, device) != pair_rates{};
    found.profile = is_pair_measured ? FERRY_PROFILE_MEASURED
                                     : origin_of(instance.profiles.of(device), instance.devices[device].info);
    found.source_memory = public_kind(known.source);
    found.source_device = device_of(step.shape.source, known.source, device);
    found.destination_memory = public_kind(known.destination);
    found.destination_device = device_of(step.shape.destination, known.destination, device);
    found.width = step.shape.width;
    found.height = step.shape.height;
    found.depth = step.shape.depth;
}

} // namespace

error explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
                   copy_form form, CUstream stream, ferry_explanation &found) noexcept {
    found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    const auto explain = [&](const prepared_copy &prepared) noexcept -> error {
        const copy_step &whole = prepared.step;
        resolved_ends ends = prepared.ends;
        reported_ends known;
        if (error failed = look_up_kinds(instance, whole, ends, known)) return failed;
        if (error failed = print_forecasts(instance, known.shape, prepared, ends, found)) return failed;
        const copy_site site = prepared.site(stream);
        const auto print = [&](const copy_step &step) noexcept {
            if (&step == &whole)
                print_step(instance, step, known.source, known.destination, found);
            else
                print_step(instance, step, step.shape.source.kind, step.shape.destination.kind, found);
            return check_capture(instance, step, site);
        };
        if (error failed = for_each_step(instance, whole, site, print)) return failed;
        print_ends(instance, whole, known, found);
        return {};
    };
    return with_prepared_copy(instance, copy, wanted, form, stream, purpose::explain, explain);
}

} // namespace ferry
