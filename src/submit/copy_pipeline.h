// The way of one copy, run or explained, to the call that makes it: lay out, resolve, check, choose the context, plan. In
// a header, as it is to become one piece with what comes after it.
#pragma once

#include "submit/copy_steps.h"
#include "submit/staging_setup.h"

namespace ferry {

[[gnu::always_inline]] inline failure resolve_ends(const ferry_instance &instance, const ferry_copy_desc &copy,
                                                   const shape &shape, copy_form form, std::uint32_t flags,
                                                   CUstream stream, resolved_ends &ends) noexcept {
    // What host memory is decides how the driver's call has to be ordered and waited for, and whether it is staged; but
    // not of the target of an asynchronous copy of device memory that is not staged.
    const bool is_source_on_device = copy.source.kind == FERRY_KIND_DEVICE || copy.source.kind == FERRY_KIND_ARRAY;
    const bool need_destination = form == copy_form::synchronous || may_stage(instance, flags) || !is_source_on_device;
    const auto resolve = [&](const ferry_place &place, const shape_end &end, bool need_kind,
                             resolved_place &resolved) noexcept {
        return resolve_place(instance.cu, place, end.span,
                             {.ranges = &instance.pinned.ranges(),
                              .full_checks = instance.full_checks,
                              .need_host_kind = need_kind,
                              .need_reach = need_kind,
                              .stream = stream},
                             resolved);
    };
    if (failure failed = resolve(copy.source, shape.source, true, ends.source))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (failure failed = resolve(copy.destination, shape.destination, need_destination, ends.destination))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    return {};
}

struct prepared_copy {
    ferry::shape shape;
    plan_facts facts;
    copy_plan plan;
    context_choice choice;
    kernel_views views; // of the kernel route

    copy_site site(CUstream stream) const noexcept { return {choice.wanted, stream}; }
    planned_part as_part() const noexcept { return {shape, facts, plan, views}; }
};

// What is pageable depends on the context (kind_to_context), and was asked before the copy's own was entered.
[[gnu::cold, gnu::noinline]] inline failure look_up_host_kinds(const ferry_instance &instance, const shape &shape,
                                                               resolved_ends &ends) noexcept {
    const auto look_up = [&](const shape_end &end, resolved_place &place) noexcept -> failure {
        const bool was_asked = place.kind == memory_kind::pageable || is_pinned(place.kind);
        return was_asked ? look_up_kind(instance.cu, end.span.first, place.kind) : failure{};
    };
    if (failure failed = look_up(shape.source, ends.source)) return failed;
    return look_up(shape.destination, ends.destination);
}

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
    if (failure failed = resolve_ends(instance, copy, shape, form, flags, stream, resolved)) return failed;
    context_choice &choice = prepared.choice;
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, resolved.destination.device,
                                        resolved.source.device, choice))
        return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (shape.source.array || shape.destination.array)
        if (failure failed = look_up_arrays(instance.cu, copy, resolved)) return failed;
    if (choice.wanted != choice.current)
        if (failure failed = look_up_host_kinds(instance, shape, resolved)) return failed;
    if (failure failed = settle(resolved, instance.limits, shape)) return failed;

    prepared.facts = {.form = form};
    if (failure failed = instance.contexts.device_of_current(choice.wanted, prepared.facts.context_device))
        return failed;
    if (needs_no_choice(shape, {}) && !flags && !leaves_device(shape, prepared.facts.context_device)) {
        prepared.plan = plan_for_driver(shape, prepared.facts);
    } else {
        if (leaves_device(shape, prepared.facts.context_device))
            if (failure failed = look_up_pool_ends(instance, prepared.facts.context_device, shape)) return failed;
        if (failure failed = look_at_stream(instance, shape, stream, prepared.facts)) return failed;
        prepared.facts.wishes = wishes_of(flags);
        if (failure failed = choose(instance, shape, choice.wanted, prepared.facts, prepared.views, prepared.plan))
            return failed;
    }
    return then(prepared);
}

} // namespace ferry
