// Runs one fill. The steps are those of a copy, but the memory is looked up before the context is chosen: a fill on a
// default stream takes a context on the memory's device.
#include "submit/fill.h"

#include "driver/result.h"
#include "exec/driver_copy.h"
#include "exec/driver_fill.h"
#include "exec/driver_parts.h"
#include "exec/kernel_copy.h"
#include "exec/kernel_fill.h"
#include "plan/fill_plan.h"
#include "submit/copy_steps.h"

namespace ferry {

namespace {

struct prepared_fill {
    fill_shape shape;
    resolved_place end;
    fill_plan plan;
    kernel_view view; // used by the kernel route
};

constexpr std::int32_t refused_by_driver = to_status(CUDA_ERROR_INVALID_VALUE);

// Plans a fill that has a choice of routes, or for which the driver has no call.
[[gnu::noinline]] error choose(ferry_instance &instance, std::uint32_t flags, CUcontext context,
                               prepared_fill &prepared) noexcept {
    fill_facts facts = {.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded,
                        .reach = obstacle::none,
                        .preferences = preferences_of(flags)};
    if (error failed = instance.contexts.device_of_current(context, facts.context_device)) return failed;
    facts.profile = instance.profiles.of(facts.context_device);
    auto &[shape, end, plan, view] = prepared;
    plan = plan_fill(shape, facts);
    if (plan.route == route_kind::kernel) {
        if (instance.kernels.load_into(context)) facts.kernels = obstacle::not_loaded;
        if (error failed = know_everything(instance.cu, shape.destination, end)) return failed;
        view = view_of(*end.facts, shape.destination.span, access::write, context, facts.context_device);
        facts.reach = view.why_not;
        plan = plan_fill(shape, facts);
    }
    return plan.refused == obstacle::none ? ok : refusal_of(shape, facts, plan);
}

error run_by_driver(ferry_instance &instance, prepared_fill &prepared, CUcontext context, CUstream stream) noexcept {
    const fill_shape &shape = prepared.shape;
    std::uint64_t address = shape.destination.span.first;
    if (shape.destination.kind == memory_kind::pinned) {
        if (error failed = know_everything(instance.cu, shape.destination, prepared.end)) return failed;
        if (error failed = find_pinned_on_device(*prepared.end.facts, address)) return failed;
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

// Runs the fill in `context`, which must be current.
error run(ferry_instance &instance, prepared_fill &prepared, std::uint32_t flags, copy_form form, CUcontext context,
          CUstream stream) noexcept {
    const auto &[shape, end, plan, view] = prepared;
    if (!needs_no_choice(shape, preferences_of(flags)))
        if (error failed = choose(instance, flags, context, prepared)) return failed;
    const error failed = plan.route == route_kind::kernel
                             ? run_kernel_fill(instance.cu, instance.kernels, shape, view.address, plan.blocks, stream)
                             : run_by_driver(instance, prepared, context, stream);
    if (instance.trace && !failed)
        instance.trace.note(plan.route == route_kind::kernel ? route_kind::kernel : route_kind::driver, context);
    if (failed || form == copy_form::asynchronous) return failed;
    return wait_for_legacy_stream(instance.cu);
}

// A fill was refused in the current context: retries it in the context that owns the memory. Only the context that
// opened the memory of another process can fill it, and kernels do not find the memory of another context. The retry
// waits first, because the work before the fill is in the current context.
[[gnu::cold, gnu::noinline]] error run_in_owner(ferry_instance &instance, prepared_fill &prepared, std::uint32_t flags,
                                                copy_form form, CUcontext context, error refused) noexcept {
    const bool by_driver = refused.status == refused_by_driver;
    if (!by_driver && refused.status != FERRY_ERROR_UNSUPPORTED && refused.status != FERRY_ERROR_ROUTE) return refused;
    const shape_end &end = prepared.shape.destination;
    int context_device = -1;
    if (end.kind != memory_kind::device || know_everything(instance.cu, end, prepared.end) ||
        instance.contexts.device_of_current(context, context_device))
        return refused;
    const address_facts facts = *prepared.end.facts;
    const bool is_at_home = !facts.owner || facts.owner == context || facts.device != context_device;
    if (is_at_home || end.span.last - facts.range_start >= facts.range_size) return refused; // for another reason
    if (form == copy_form::asynchronous)
        return by_driver ? refuse(FERRY_ERROR_NO_CONTEXT, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS) : refused;
    if (error failed = wait_for_legacy_stream(instance.cu)) return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(facts.owner)) return failed;
    prepared.plan = {};
    prepared.end.query = address_query::nothing; // the answer was for the other context
    return run(instance, prepared, flags, form, facts.owner, nullptr);
}

} // namespace

error run_fill(ferry_instance &instance, const ferry_fill_desc &desc, copy_form form, CUstream stream) noexcept {
    prepared_fill prepared;
    fill_shape &shape = prepared.shape;
    if (error failed = validate_fill_fields(desc, instance.limits, shape)) return failed;
    if (shape.width == 0) return {};
    const std::uint32_t flags = desc.flags ? desc.flags : instance.copy_flags;
    if (error failed = resolve_place(instance.cu, desc.destination, shape.destination.span,
                                     {.ranges = &instance.pinned.ranges(),
                                      .full_checks = instance.full_checks,
                                      .need_host_kind = true,
                                      .query_everything = true,
                                      .needs_registered = true,
                                      .stream = stream},
                                     prepared.end))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    if (error failed = validate_fill_bounds(prepared.end, instance.limits, shape)) return failed;
    context_choice choice;
    if (error failed = choose_context_on(instance.cu, instance.contexts, stream, shape.destination.device, choice))
        return failed;
    context_scope scope(instance.cu);
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (choice.wanted != choice.current)
        prepared.end.query = address_query::nothing; // the answer was for the other context
    const error result = run(instance, prepared, flags, form, choice.wanted, stream);
    return result ? run_in_owner(instance, prepared, flags, form, choice.wanted, result) : result;
}

} // namespace ferry
