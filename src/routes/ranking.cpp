#include "routes/ranking.h"

#include "routes/driver.h"

namespace ferry {

namespace {

// Managed memory counts as device memory, because both the driver and kernels fetch pages from elsewhere.
copy_direction direction_of(const shape &shape, int context_device) noexcept {
    if (is_host(shape.source.kind)) return copy_direction::host_to_device;
    if (is_host(shape.destination.kind)) return copy_direction::device_to_host;
    return device_of(shape.source, context_device) == device_of(shape.destination, context_device)
               ? copy_direction::within_device
               : copy_direction::between_devices;
}

} // namespace

obstacle copy_question::why_not_predicted() const noexcept {
    if (!facts.profile) return obstacle::not_measured;
    const bool is_managed =
        shape.source.kind == memory_kind::managed || shape.destination.kind == memory_kind::managed ||
        facts.kernels.source_reach == obstacle::managed || facts.kernels.destination_reach == obstacle::managed;
    return is_managed ? obstacle::managed : obstacle::none;
}

const copy_question::speeds &copy_question::rates() const noexcept {
    if (!rates_) {
        const copy_direction direction = direction_of(shape, facts.call.context_device);
        rates_ = {direction, &(*facts.profile)[direction], rows_of(shape)};
    }
    return *rates_;
}

const prediction &copy_question::predicted(const route &by) const noexcept {
    const auto at = static_cast<unsigned>(by.kind);
    if (!(known_ >> at & 1)) {
        predicted_[at] = by.predict(*this);
        known_ = static_cast<std::uint16_t>(known_ | 1u << at);
    }
    return predicted_[at];
}

bool copy_question::is_faster(const route &by) const noexcept {
    return predicted(by).ns * kernel_margin < predicted(driver_route).ns;
}

bool copy_question::would_be_staged_if_awake() const noexcept {
    if (!facts.profile || facts.staging.idle_ns == 0 || is_obstacle(facts.staging.why_not)) return false;
    const double wake_ns = ns_to_wake(rates().direction, facts.call.form, facts.staging.idle_ns);
    return wake_ns != 0 && (predicted(staged_route).ns - wake_ns) * kernel_margin < predicted(driver_route).ns;
}

copy_plan plan_by(const ranked_route &route, const copy_question &copy) noexcept {
    copy_plan plan;
    plan.route = route.by->kind;
    plan.synchronise_after = copy.facts.call.form == copy_form::synchronous;
    if (route.by->plan) route.by->plan(copy, plan);
    plan.reason = route.reason;
    plan.are_threads_late = copy.facts.staging.thread_delay_ns != 0;
    plan.are_threads_asleep = route.by == &driver_route && copy.would_be_staged_if_awake();
    plan.why_not_staged = copy.facts.staging.why_not;
    return plan;
}

ranked_routes rank_routes(const copy_question &copy) noexcept {
    ranked_routes ranked;
    const call_facts &call = copy.facts.call;
    const auto why_not = [&](const route &by) noexcept {
        const obstacle why = by.why_not(copy);
        if (!call.preferences.no_wait || is_obstacle(why)) return why;
        return waits(copy.shape, call, plan_by({&by, FERRY_REASON_NONE}, copy)) ? obstacle::waits : obstacle::none;
    };
    if (call.preferences.forced != route_kind::none) {
        const route *const forced = find_route(call.preferences.forced);
        ranked.refused = forced ? why_not(*forced) : obstacle::no_route;
        return is_obstacle(ranked.refused) ? ranked : ranked.add(*forced, FERRY_REASON_FORCED);
    }
    if (call.has_command_room) return ranked.add(driver_route, FERRY_REASON_SOURCE_ORDER);
    const obstacle why_not_driver = why_not(driver_route);
    bool is_only = true;
    for (const route *const by : all_routes) {
        if (by == &driver_route || is_obstacle(why_not(*by))) continue;
        is_only = false;
        preference wish;
        if (by->prefer)
            wish = by->prefer(copy);
        else if (!is_obstacle(copy.why_not_predicted()) && copy.is_faster(*by))
            wish = {true, FERRY_REASON_PREDICTED};
        if (!wish.is_taken && is_obstacle(why_not_driver)) wish = {true, FERRY_REASON_NO_WAIT};
        if (wish.is_taken) ranked.add(*by, wish.reason);
        if (wish.is_taken && by->is_final) return ranked;
    }
    if (is_obstacle(why_not_driver)) {
        if (ranked.count == 0) ranked.refused = copy.shape.has_file() ? why_not(staged_route) : why_not_driver;
        return ranked;
    }
    return ranked.add(driver_route, is_only                           ? FERRY_REASON_ONLY
                                    : needs_no_choice(copy.shape, {}) ? FERRY_REASON_LINE
                                                                      : FERRY_REASON_PREDICTED);
}

copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept {
    if (needs_no_choice(shape, facts.call.preferences) && is_obstacle(facts.links.relay))
        return plan_for_driver(shape, facts.call);
    const copy_question copy(shape, facts);
    const ranked_routes ranked = rank_routes(copy);
    return is_obstacle(ranked.refused) ? refuse_plan(ranked.refused) : plan_by(ranked.all[0], copy);
}

copy_forecast predict_copy(const shape &shape, const plan_facts &facts) noexcept {
    const copy_question copy(shape, facts);
    const bool is_host_alone = is_host(shape.source.kind) && is_host(shape.destination.kind);
    const bool is_predicted = !is_obstacle(copy.why_not_predicted()) && !is_host_alone;
    copy_forecast forecast;
    for (const route *const by : all_routes) {
        route_forecast &of = forecast[by->kind];
        of.why_not = by->why_not(copy);
        if (!is_predicted || !by->predict || is_obstacle(of.why_not)) continue;
        const prediction &predicted = copy.predicted(*by);
        of.blocks = predicted.blocks;
        of.predicted_ns = static_cast<std::uint64_t>(predicted.ns);
        of.delay_ns = predicted.delay_ns;
    }
    return forecast;
}

} // namespace ferry
