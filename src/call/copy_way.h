// The way of one copy, run or explained, to the call that makes it: lay out, resolve, check, choose the context, plan. In
// a header, as it is to become one piece with what comes after it.
#pragma once

#include "call/copy_steps.h"
#include "call/staging.h"

namespace ferry {

[[gnu::always_inline]] inline failure resolve_ends(const ferry_instance &instance, const ferry_copy_desc &copy,
                                                   const shape &shape, std::uint32_t flags, copy_form form,
                                                   CUstream stream, resolved_ends &ends) noexcept {
    // Pageable memory may be staged; and whether the driver returns early hangs on the source being that. Not where both ends
    // are the host's.
    const bool is_staged = may_stage(instance, flags);
    const bool need_reach = form == copy_form::synchronous && copy.destination.kind != FERRY_KIND_HOST;
    if (failure failed =
            resolve_place(instance.cu, copy.source, shape.source.span,
                          {.ranges = &instance.pinned.ranges(),
                           .full_checks = instance.full_checks,
                           .need_host_kind = need_reach || (is_staged && copy.destination.kind != FERRY_KIND_HOST),
                           .need_reach = need_reach,
                           .stream = stream},
                          ends.source))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (failure failed = resolve_place(instance.cu, copy.destination, shape.destination.span,
                                       {.ranges = &instance.pinned.ranges(),
                                        .full_checks = instance.full_checks,
                                        .need_host_kind = is_staged && copy.source.kind != FERRY_KIND_HOST,
                                        .stream = stream},
                                       ends.destination))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    return {};
}

struct prepared_copy {
    ferry::shape shape;
    plan_facts facts;
    copy_plan plan;
    context_choice choice;
    kernel_views views; // of the kernel route
};

// Everything before the driver's call; then `then(prepared)`, with the copy's context current.
template <class Then>
[[gnu::always_inline]] inline failure prepare_copy(ferry_instance &instance, const ferry_copy_desc &copy,
                                                   copy_form form, CUstream stream, Then then) noexcept {
    prepared_copy prepared;
    shape &shape = prepared.shape;
    if (failure failed = lay_out(copy, instance.limits, shape)) return failed;
    if (shape.empty()) return {};

    const std::uint32_t flags = copy.flags ? copy.flags : instance.copy_flags;
    resolved_ends resolved;
    if (failure failed = resolve_ends(instance, copy, shape, flags, form, stream, resolved)) return failed;
    context_choice &choice = prepared.choice;
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, resolved.destination.device,
                                        resolved.source.device, choice))
        return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (shape.source.array || shape.destination.array)
        if (failure failed = look_up_arrays(instance.cu, copy, resolved)) return failed;
    if (failure failed = settle(resolved, instance.limits, shape)) return failed;

    prepared.facts = {.form = form};
    if (failure failed = instance.contexts.device_of_current(choice.wanted, prepared.facts.context_device))
        return failed;
    if (needs_no_choice(shape, {}) && !flags) {
        prepared.plan = plan_for_driver(shape, prepared.facts);
    } else {
        prepared.facts.wishes = wishes_of(flags);
        if (failure failed =
                choose(instance, shape, choice.wanted, stream, prepared.facts, prepared.views, prepared.plan))
            return failed;
    }
    context_scope graph_scope(instance.cu);
    if (prepared.plan.names_contexts && form == copy_form::asynchronous)
        if (failure failed =
                enter_for_graph(instance, shape, stream, choice.wanted, prepared.facts, prepared.plan, graph_scope))
            return failed;
    return then(prepared);
}

} // namespace ferry
