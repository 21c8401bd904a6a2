// Runs one fill. The steps are the same as for a copy, but the memory is looked up before the context is chosen: a fill
// on a default stream uses a context on the memory's device.
#include "submit/fill.h"

#include <algorithm>
#include <cstdio>

#include "device/stream_order.h"
#include "driver/result.h"
#include "exec/driver_fill.h"
#include "exec/kernel_fill.h"
#include "exec/kernel_view.h"
#include "plan/fill_plan.h"
#include "routes/ends.h"
#include "submit/copy.h"

namespace ferry {

namespace {

// A fill whose route is chosen. It is executed or explained.
struct fill_step {
    fill_shape shape;
    resolved_place end;
    fill_plan plan;
    kernel_view view; // used by the kernel route
};

constexpr std::int32_t refused_by_driver = to_status(CUDA_ERROR_INVALID_VALUE);

// Plans a fill that has a choice of routes, or for which the driver has no call.
[[gnu::noinline]] error choose(ferry_instance &instance, const copy_preferences &wanted, CUcontext context,
                               fill_step &step) noexcept {
    fill_facts facts = {.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded,
                        .reach = obstacle::none,
                        .preferences = wanted};
    if (error failed = instance.contexts.device_of_current(context, facts.context_device)) return failed;
    facts.profile = instance.profiles.of(facts.context_device);
    auto &[shape, end, plan, view] = step;
    plan = plan_fill(shape, facts);
    if (plan.route == route_kind::kernel) {
        if (instance.kernels.load_into(context, !wanted.no_wait))
            facts.kernels = wanted.no_wait ? obstacle::not_prepared : obstacle::not_loaded;
        if (error failed = know_everything(instance.cu, shape.destination, end)) return failed;
        view = view_of(*end.facts, shape.destination.span, access::write, context, facts.context_device);
        facts.reach = view.why_not;
        plan = plan_fill(shape, facts);
    }
    return plan.refused == obstacle::none ? ok : refusal_of(shape, facts, plan);
}

error run_by_driver(ferry_instance &instance, fill_step &step, CUcontext context, CUstream stream) noexcept {
    const fill_shape &shape = step.shape;
    std::uint64_t address = shape.destination.span.first;
    if (shape.destination.kind == memory_kind::pinned) {
        if (error failed = know_everything(instance.cu, shape.destination, step.end)) return failed;
        if (error failed = find_pinned_on_device(*step.end.facts, address)) return failed;
    }
    error result = run_driver_fill(instance.cu, shape, address, stream);
    if (result.status != refused_by_driver) return result;
    if (shape.destination.kind == memory_kind::pinned)
        result = run_fill_in_parts(instance.cu, instance.pinned.ranges(), shape, result, stream);
    const int device = shape.destination.device;
    if (result.status == refused_by_driver && device >= 0 &&
        !is_within_reach(instance.cu, shape.destination.span.first)) {
        int context_device = -1;
        if (error failed = instance.contexts.device_of_current(context, context_device)) return failed;
        if (context_device != device) return refuse_device(shape.destination, context_device);
    }
    return result;
}

struct fill_request {
    ferry_instance &instance;
    copy_preferences preferences;
    copy_form form;
    CUstream stream;
    graph_target *node;             // if not null, the fill becomes this node
    ferry_explanation *explanation; // if not null, receives what the fill would do, and nothing is enqueued
};

[[gnu::cold]] error explain(const fill_request &request, fill_step &step, CUcontext context) noexcept {
    ferry_instance &instance = request.instance;
    auto &[shape, end, plan, view] = step;
    memory_kind kind = shape.destination.kind;
    if (error failed = know_kind(instance.cu, shape.destination, end, kind)) return failed;
    ferry_explanation &found = *request.explanation;
    found.calls = 1;
    const bool by_kernel = plan.route == route_kind::kernel, waits = request.form == copy_form::synchronous;
    if (!by_kernel && shape.destination.kind == memory_kind::pinned) {
        std::uint64_t address;
        if (error failed = find_pinned_on_device(*end.facts, address)) return failed;
        const error refused = {.status = refused_by_driver};
        if (error failed = count_fill_parts(instance.pinned.ranges(), shape, refused, found.calls)) return failed;
    }
    if (error failed = instance.contexts.device_of_current(context, found.context_device)) return failed;
    found.route = static_cast<std::int32_t>(plan.route);
    found.blocks = waits ? FERRY_BLOCKS_UNTIL_DONE : FERRY_BLOCKS_NO;
    found.synchronises = waits;
    std::snprintf(found.driver_call, sizeof found.driver_call, "%s",
                  by_kernel ? "cuLaunchKernel" : driver_fill_name(shape));
    found.destination_memory = public_kind(kind);
    found.destination_device = kind == memory_kind::device ? shape.destination.device : -1;
    found.width = shape.width;
    found.height = shape.height;
    found.depth = shape.depth;
    found.kernel_obstacle = static_cast<std::int32_t>(plan.why_no_kernel);
    found.max_sms = plan.blocks;
    found.reason = plan.reason;
    found.profile = origin_of(instance.profiles.of(found.context_device), instance.devices[found.context_device].info);
    return {};
}

// Makes the fill a node of a graph in `context`, which must be current.
[[gnu::cold]] error run_for_node(const fill_request &request, fill_step &step, CUcontext context) noexcept {
    ferry_instance &instance = request.instance;
    const fill_shape &shape = step.shape;
    if (!driver_has_call_for(shape)) return refusal_of(shape, {}, {});
    std::uint64_t address = shape.destination.span.first;
    if (shape.destination.kind == memory_kind::pinned) {
        if (error failed = know_everything(instance.cu, shape.destination, step.end)) return failed;
        if (error failed = find_pinned_on_device(*step.end.facts, address)) return failed;
        const error in_parts = refuse_value(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS,
                                            shape.destination.span.first);
        std::uint32_t parts = 1;
        if (error failed = count_fill_parts(instance.pinned.ranges(), shape, in_parts, parts)) return failed;
        if (parts > 1) return in_parts;
    }
    return set_fill_node(instance.cu, shape, address, context, *request.node);
}

// Runs or explains the fill in `context`, which must be current.
error run(const fill_request &request, fill_step &step, CUcontext context) noexcept {
    ferry_instance &instance = request.instance;
    const auto &[shape, end, plan, view] = step;
    if (request.node) return run_for_node(request, step, context);
    if (!needs_no_choice(shape, request.preferences))
        if (error failed = choose(instance, request.preferences, context, step)) return failed;
    if (request.explanation) return explain(request, step, context);
    const error failed = plan.route == route_kind::kernel ? run_kernel_fill(instance.cu, instance.kernels, shape,
                                                                            view.address, plan.blocks, request.stream)
                                                          : run_by_driver(instance, step, context, request.stream);
    if (failed) return failed;
    if (instance.trace) instance.trace.note(plan.route, context);
    const bool waits = request.form == copy_form::synchronous;
    const std::uint64_t begin_ns = waits ? clock_ns() : 0;
    const error passed = waits ? wait_for_legacy_stream(instance.cu) : ok;
    const std::uint64_t waited_ns = waits ? clock_ns() - begin_ns : 0;
    int device = 0;
    if (!instance.contexts.device_of_current(context, device))
        instance.counters.add(device, plan.route, request.stream, 1, shape.width * shape.height * shape.depth,
                              waited_ns);
    return passed;
}

// Retries a fill that was rejected in the current context, in the context that owns the memory. Only the context that
// opened the memory of another process can fill it, and kernels cannot access the memory of another context. The retry
// waits first, because the work before the fill is in the current context.
[[gnu::cold, gnu::noinline]] error run_in_owner(const fill_request &request, fill_step &step, CUcontext context,
                                                error refused) noexcept {
    ferry_instance &instance = request.instance;
    const bool by_driver = refused.status == refused_by_driver;
    if (!by_driver && refused.status != FERRY_ERROR_UNSUPPORTED && refused.status != FERRY_ERROR_ROUTE) return refused;
    const shape_end &end = step.shape.destination;
    int context_device = -1;
    if (end.kind != memory_kind::device || know_everything(instance.cu, end, step.end) ||
        instance.contexts.device_of_current(context, context_device))
        return refused;
    const address_facts facts = *step.end.facts;
    const bool is_at_home = !facts.owner || facts.owner == context || facts.device != context_device;
    if (is_at_home || end.span.last - facts.range_start >= facts.range_size) return refused; // for another reason
    if (request.form == copy_form::asynchronous)
        return by_driver ? refuse(FERRY_ERROR_NO_CONTEXT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS) : refused;
    if (!request.explanation)
        if (error failed = wait_for_legacy_stream(instance.cu)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(facts.owner)) return failed;
    step.plan = {};
    step.end.query = address_query::nothing; // the result was for the other context
    return run(request, step, facts.owner);
}

// Returns FERRY_ERROR_WOULD_BLOCK if the context that choose_context_on chooses does not exist yet.
[[gnu::cold]] error require_context_on(ferry_instance &instance, const copy_preferences &wanted, CUstream stream,
                                       int device) noexcept {
    CUcontext current = nullptr;
    int current_device = -1;
    if (!belongs_to_current_context(stream)) return {};
    if (call_result result = instance.cu.cuCtxGetCurrent(&current)) return to_error(result);
    if (current)
        if (error failed = instance.contexts.device_of_current(current, current_device)) return failed;
    const bool is_taken = current && (device < 0 || device == current_device);
    return is_taken ? ok : require_context(instance.contexts, wanted, std::max(device, 0));
}

error run_or_explain(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted,
                     copy_form form, CUstream stream, ferry_ticket *ticket, graph_target *node,
                     ferry_explanation *explanation) noexcept {
    fill_step step;
    fill_shape &shape = step.shape;
    if (error failed = validate_fill_fields(desc, instance.limits, shape)) return failed;
    if (shape.width == 0) return {};
    if (wanted.no_wait && form == copy_form::synchronous) return refuse_route(obstacle::waits);
    const resolve_options options = {.ranges = &instance.pinned.ranges(),
                                     .need_host_kind = true,
                                     .query_everything = true,
                                     .needs_registered = true,
                                     .stream = stream};
    const address_span &span = shape.destination.span;
    const row_layout rows = rows_of(shape.destination, {shape.width, shape.height, shape.depth});
    if (error failed = instance.full_checks ? resolve_checked(instance.cu, desc.destination, rows, host_use::write,
                                                              span, instance.mappings, options, step.end)
                                            : resolve_place(instance.cu, desc.destination, span, options, step.end))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (instance.full_checks && is_freed(instance, step.end))
        return refuse_freed(desc.destination.address, FERRY_SIDE_DESTINATION);
    if (error failed = validate_fill_bounds(step.end, instance.limits, shape)) return failed;
    context_choice choice;
    if (wanted.no_wait)
        if (error failed = require_context_on(instance, wanted, stream, shape.destination.device)) return failed;
    if (error failed = choose_context_on(instance.cu, instance.contexts, stream, shape.destination.device, choice))
        return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (choice.wanted != choice.current)
        step.end.query = address_query::nothing; // the result was for the other context
    if (error failed = begin_ticket(ticket, stream)) return failed;
    const fill_request request = {instance, wanted, form, stream, node, explanation};
    error result = run(request, step, choice.wanted);
    if (result) result = run_in_owner(request, step, choice.wanted, result);
    return result ? result : end_ticket(ticket, stream);
}

} // namespace

error run_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted, copy_form form,
               CUstream stream, ferry_ticket *ticket) noexcept {
    return run_or_explain(instance, desc, wanted, form, stream, ticket, nullptr, nullptr);
}

error set_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted,
               graph_target &target) noexcept {
    const copy_form form = copy_form::asynchronous;
    if (error failed = run_or_explain(instance, desc, wanted, form, nullptr, nullptr, &target, nullptr)) return failed;
    return target.is_set ? ok : empty_node;
}

error explain_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted,
                   copy_form form, CUstream stream, ferry_explanation &found) noexcept {
    found = {};
    found.source_memory = FERRY_MEMORY_NONE;
    found.context_device = found.source_device = found.destination_device = -1;
    return run_or_explain(instance, desc, wanted, form, stream, nullptr, nullptr, &found);
}

} // namespace ferry
