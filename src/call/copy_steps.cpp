#include "call/copy_steps.h"

#include "device/capture_mode.h"
#include "route/parts.h"

namespace ferry {

failure look_up_arrays(const driver_table &cu, const ferry_copy_desc &copy, resolved_ends &ends) noexcept {
    if (ends.source.kind == memory_kind::array)
        if (failure failed = look_up_array(cu, copy.source, ends.source.array))
            return on_side(failed, FERRY_SIDE_SOURCE);
    if (ends.destination.kind == memory_kind::array)
        if (failure failed = look_up_array(cu, copy.destination, ends.destination.array))
            return on_side(failed, FERRY_SIDE_DESTINATION);
    return {};
}

failure find_contexts(ferry_instance &instance, const shape &shape, int context_device,
                      end_contexts &contexts) noexcept {
    const auto find = [&](const shape_end &end, CUcontext &found) noexcept -> failure {
        if (end.device < 0 || end.device == context_device) return {};
        return instance.contexts.get(end.device, found);
    };
    if (failure failed = find(shape.source, contexts.source)) return failed;
    return find(shape.destination, contexts.destination);
}

failure enter_for_graph(ferry_instance &instance, const shape &shape, CUstream stream, CUcontext of_stream,
                        plan_facts &facts, copy_plan &plan, context_scope &scope) noexcept {
    if (!is_being_captured(instance.cu, stream)) return {};
    facts.is_captured = true;
    plan = plan_for_driver(shape, facts);
    end_contexts others;
    if (!belongs_to_current_context(stream))
        if (failure failed = find_contexts(instance, shape, -1, others)) return failed;
    const auto is_reached = [&](const shape_end &end, int device) noexcept {
        return end.kind != memory_kind::device ||
               is_found_by_copies(instance.cu, end.span.first, end.device < 0 || end.device == device);
    };
    for (const CUcontext context : {of_stream, others.source, others.destination}) {
        if (!context) continue;
        bool reaches_both = false;
        {
            context_scope trial(instance.cu);
            int device = -1;
            if (failure failed = trial.enter(context)) return failed;
            if (failure failed = instance.contexts.device_of_current(context, device)) return failed;
            reaches_both = is_reached(shape.source, device) && is_reached(shape.destination, device);
        }
        if (reaches_both) return scope.enter(context);
    }
    return {.status = FERRY_ERROR_CAPTURE};
}

failure look_up_views(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts,
                      kernel_views &views) noexcept {
    const auto look_up = [&](const shape_end &end, kernel_view &view, obstacle &reach) noexcept -> failure {
        failure failed;
        if (!end.array)
            failed = look_up_for_kernels(instance.cu, end, &end == &shape.source ? access::read : access::write,
                                         context, facts.context_device, view);
        else if (&end == &shape.source)
            view = look_up_for_kernels(instance.surfaces, end.array, context);
        else
            view.why_not = obstacle::array;
        reach = view.why_not;
        return failed;
    };
    if (failure failed = look_up(shape.source, views.source, facts.source_reach)) return failed;
    return look_up(shape.destination, views.destination, facts.destination_reach);
}

void begin_choice(const ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept {
    facts.profile = instance.profiles.of(facts.context_device);
    facts.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded;
    const bool is_read = !shape.source.array || instance.surfaces.may_serve(shape.source.array, context);
    facts.source_reach = is_read ? obstacle::none : obstacle::array;
    facts.destination_reach = shape.destination.array ? obstacle::array : obstacle::none;
}

failure choose(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts, kernel_views &views,
               copy_plan &plan) noexcept {
    begin_choice(instance, shape, context, facts);
    plan = plan_copy(shape, facts);
    if (plan.route == route_kind::kernel) { // as far as is known: now all is asked
        if (instance.kernels.load_into(context)) facts.kernels = obstacle::not_loaded;
        if (failure failed = look_up_views(instance, shape, context, facts, views)) return failed;
        plan = plan_copy(shape, facts);
    }
    return plan.refused == obstacle::none ? failure{} : refuse_route(plan.refused);
}

void run_refused_in_parts(ferry_instance &instance, const shape &shape, const plan_facts &facts,
                          const end_contexts &contexts, CUstream stream, failure &result) noexcept {
    const host_ranges &ranges = instance.pinned.ranges();
    if (result.status == to_status(CUDA_ERROR_INVALID_VALUE) && crosses_border(shape, ranges))
        result = run_in_parts(instance.cu, ranges, shape, facts, contexts, stream);
}

} // namespace ferry
