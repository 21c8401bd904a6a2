#include "batch/broadcast_lanes.h"

#include "submit/choice.h"
#include "submit/run_step.h"

namespace ferry {

error broadcast_lanes::with_planned_line(const shape_end &to, const shape_end &from, int device, const copy_site &site,
                                         bool is_idle, function_ref<error(const copy_step &)> use) noexcept {
    const shape line = {from, to, to.row_pitch, 1, 1};
    call_facts call = {.context_device = device, .form = copy_form::asynchronous};
    call.preferences = preferences_;
    if (error failed = look_at_stream(instance_, line, site.stream, call)) return failed;
    call.is_stream_idle |= is_idle;
    copy_step step = {line, call, plan_for_driver(line, call), {}};
    resolved_ends ends;
    if (needs_threads(line) || leaves_device(line, device))
        if (error failed = choose(instance_, ends, site.context, step)) return failed;
    return use(step);
}

error broadcast_lanes::copy_line(const shape_end &to, const shape_end &from, int device, const copy_site &site,
                                 bool is_idle) noexcept {
    return with_planned_line(to, from, device, site, is_idle, [&](const copy_step &step) noexcept {
        return run_step(instance_, step, site, step.shape.has_file() ? site_.files : nullptr);
    });
}

namespace {

// From the host, the devices of an island exchange chunks: all of them forward. From a device, they form a chain: all
// except the last one forward.
bool forwards(const broadcast_targets &to, unsigned target) noexcept {
    for (unsigned i = to.is_from_device() ? target + 1 : 0; i < to.count(); ++i)
        if (i != target && to[i].island == to[target].island) return true;
    return false;
}

} // namespace

error broadcast_lanes::take(optional_lane &lane, CUcontext context, const stream_key &user) noexcept {
    context_scope scope(instance_.cu);
    if (error failed = scope.enter(context)) return failed;
    return lane.emplace(instance_.lanes).take(context, user);
}

// The caller's stream itself makes the copy. In a batch with other copies, that would follow them.
bool broadcast_lanes::needs_no_lane(const broadcast_targets &to, unsigned target) const noexcept {
    return !before_ && !to.is_staged() && to[target].context == site_.context && !forwards(to, target);
}

error broadcast_lanes::take(const broadcast_targets &to, bool is_idle) noexcept {
    follows_stream_ = before_ || !is_idle;
    stream_key user = {};
    if (error failed = name_stream(instance_.cu, site_.context, site_.stream, user)) return failed;
    if (to.is_from_device())
        if (error failed = take(feeding_[0], to.source_context(), user)) return failed;
    for (unsigned i = 0; i < to.count(); ++i) {
        if (!to.is_from_device() && !needs_no_lane(to, i))
            if (error failed = take(feeding_[i], to[i].context, user)) return failed;
        if (forwards(to, i))
            if (error failed = take(forwarding_[i], to[i].context, user)) return failed;
    }
    return before_ || !follows_stream_ || lane_of_caller() ? ok : take(own_, site_.context, user);
}

lane *broadcast_lanes::lane_of_caller() noexcept {
    for (optional_lane &one : feeding_)
        if (one && (*one)->context() == site_.context) return &**one;
    return own_ ? &**own_ : nullptr;
}

error broadcast_lanes::begin() noexcept {
    if (!follows_stream_) return {};
    lane_set &lanes = instance_.lanes;
    lane &marked = before_ ? *before_ : *lane_of_caller();
    if (!before_)
        if (error failed = lanes.mark(marked, site_.stream)) return failed;
    for (optional_lane &one : feeding_)
        if (one)
            if (error failed = lanes.follow(marked, (*one)->stream)) return failed;
    return {};
}

error broadcast_lanes::join() noexcept {
    error failed;
    for (optional_lane *const lanes : {feeding_, forwarding_})
        for (unsigned i = 0; i < broadcast_targets::max_targets; ++i) {
            if (!lanes[i]) continue;
            const error refused = instance_.lanes.join_or_wait(**lanes[i], site_.stream);
            if (!failed) failed = refused;
        }
    return failed;
}

error broadcast_lanes::copy(lane &by, int device_of_lane, const shape_end &to, const shape_end &from,
                            bool is_idle) noexcept {
    context_scope scope(instance_.cu);
    if (error failed = scope.enter(by.context())) return failed;
    if (to.device != device_of_lane) by.reach(to.device);
    return copy_line(to, from, device_of_lane, site_on(by), is_idle);
}

error broadcast_lanes::feed_alone(unsigned target, const shape_end &to, const shape_end &from, bool is_idle) noexcept {
    if (feeding_[target]) return copy(feeding(target), to.device, to, from, is_idle);
    return copy_line(to, from, to.device, {.context = site_.context, .stream = site_.stream, .index = index_}, is_idle);
}

error broadcast_lanes::order(const lane &earlier, const lane &later) noexcept {
    const driver_table &cu = instance_.cu;
    context_scope scope(cu);
    if (error failed = scope.enter(earlier.context())) return failed;
    if (const call_result result = cu.cuEventRecord(earlier.filled[0], earlier.stream)) return to_error(result);
    return to_error(cu.cuStreamWaitEvent(later.stream, earlier.filled[0], 0));
}

} // namespace ferry
