// The copies: lay out, resolve, check, choose the context, plan; then run, or tell what would run.
#include <algorithm>
#include <cstdio>

#include "base/explanation.h"
#include "base/sized.h"
#include "call/copy_steps.h"
#include "copy/shape.h"
#include "device/capture_mode.h"
#include "route/parts.h"

namespace ferry {
namespace {

[[gnu::always_inline]] inline failure resolve_ends(const ferry_instance &instance, const ferry_copy_desc &copy,
                                                   const shape &shape, copy_form form, CUstream stream,
                                                   resolved_ends &ends) noexcept {
    // Whether the driver returns early hangs on the source being pageable, unless both ends are the host's.
    const bool need_host_kind = form == copy_form::synchronous && copy.destination.kind != FERRY_KIND_HOST;
    if (failure failed = resolve_place(instance.cu, copy.source, shape.source.span,
                                       {.ranges = &instance.pinned.ranges(),
                                        .full_checks = instance.full_checks,
                                        .need_host_kind = need_host_kind,
                                        .need_reach = need_host_kind,
                                        .stream = stream},
                                       ends.source))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (failure failed =
            resolve_place(instance.cu, copy.destination, shape.destination.span,
                          {.ranges = &instance.pinned.ranges(), .full_checks = instance.full_checks, .stream = stream},
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
[[gnu::always_inline]] inline failure prepare(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                              CUstream stream, Then then) noexcept {
    prepared_copy prepared;
    shape &shape = prepared.shape;
    if (failure failed = lay_out(copy, instance.limits, shape)) return failed;
    if (shape.empty()) return {};

    resolved_ends resolved;
    if (failure failed = resolve_ends(instance, copy, shape, form, stream, resolved)) return failed;
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
    const std::uint32_t flags = copy.flags ? copy.flags : instance.copy_flags;
    if (needs_no_choice(shape, {}) && !flags) {
        prepared.plan = plan_for_driver(shape, prepared.facts);
    } else {
        prepared.facts.wishes = wishes_of(flags);
        if (failure failed = choose(instance, shape, choice.wanted, prepared.facts, prepared.views, prepared.plan))
            return failed;
    }
    context_scope graph_scope(instance.cu);
    if (prepared.plan.names_contexts && form == copy_form::asynchronous)
        if (failure failed =
                enter_for_graph(instance, shape, stream, choice.wanted, prepared.facts, prepared.plan, graph_scope))
            return failed;
    return then(prepared);
}

// In one piece: what a submission costs beside the driver's call is mostly calls and cold code.
[[gnu::flatten]] failure copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                              CUstream stream) noexcept {
    return prepare(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
        const auto &[shape, facts, plan, choice, views] = prepared;
        if (plan.route == route_kind::kernel)
            return run_kernel_copy(instance.cu, instance.kernels, shape, plan, views, stream);
        end_contexts contexts = {choice.wanted, choice.wanted};
        if (plan.names_contexts)
            if (failure failed = find_contexts(instance, shape, facts.context_device, contexts)) return failed;
        failure result = run_driver_route(instance.cu, shape, plan, form, contexts, stream);
        if (result) run_refused_in_parts(instance, shape, facts, contexts, stream, result);
        return result;
    });
}

int32_t copy_and_report(ferry_instance *instance, const ferry_copy_desc *desc, copy_form form, CUstream stream,
                        ferry_error_info *error) noexcept {
    if (!instance || !desc) return report(error, null_argument);
    return report(error, copy(*instance, *desc, form, stream));
}

// An array whose device was not stated is the context's; managed and host memory are no device's.
std::int32_t device_of(const shape_end &end, memory_kind kind, int context_device) noexcept {
    if (kind == memory_kind::array) return end.device < 0 ? context_device : end.device;
    return kind == memory_kind::device ? end.device : -1;
}

// Every obstacle has its number in ferry.h, but for those of batches.
static_assert(static_cast<int>(obstacle::none) == FERRY_OBSTACLE_NONE &&
              static_cast<int>(obstacle::read_only) == FERRY_OBSTACLE_READ_ONLY &&
              static_cast<int>(obstacle::managed) == FERRY_OBSTACLE_MANAGED);

failure forecast(ferry_instance &instance, const prepared_copy &prepared, ferry_explanation &found) noexcept {
    const auto &[shape, facts, plan, choice, views] = prepared;
    plan_facts all = facts;
    kernel_views seen;
    begin_choice(instance, shape, choice.wanted, all);
    if (failure failed = look_up_views(instance, shape, choice.wanted, all, seen)) return failed;
    const copy_forecast expected = predict_copy(shape, all);
    found.driver_ns = expected.driver.predicted_ns;
    found.kernel_ns = expected.kernel.predicted_ns;
    found.kernel_obstacle = static_cast<std::int32_t>(expected.kernel.why_not);
    found.multiprocessors = plan.blocks;
    return {};
}

[[gnu::cold, gnu::noinline]] failure explain(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                                             CUstream stream, ferry_explanation *explanation) noexcept {
    static_assert(static_cast<int>(blocking::no) == FERRY_BLOCKS_NO &&
                  static_cast<int>(blocking::until_staged) == FERRY_BLOCKS_UNTIL_STAGED &&
                  static_cast<int>(blocking::until_done) == FERRY_BLOCKS_UNTIL_DONE);
    ferry_explanation found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    const failure failed =
        prepare(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
            const auto &[shape, facts, plan, choice, views] = prepared;
            found.route = static_cast<std::int32_t>(plan.route);
            memory_kind source = shape.source.kind, destination = shape.destination.kind;
            if (failure failed = look_up_kind(instance.cu, shape.source.span.first, source)) return failed;
            if (failure failed = look_up_kind(instance.cu, shape.destination.span.first, destination)) return failed;
            const auto add_call = [&](memory_kind source, memory_kind destination, const copy_plan &plan) noexcept {
                const auto blocks = static_cast<std::int32_t>(blocking_of(source, destination, form));
                found.blocks = std::max(found.blocks, blocks);
                found.synchronises |= plan.synchronise_after;
                ++found.calls;
            };
            if (failure failed = forecast(instance, prepared, found)) return failed;
            const host_ranges &ranges = instance.pinned.ranges();
            const bool by_kernel = plan.route == route_kind::kernel;
            if (by_kernel || !crosses_border(shape, ranges)) {
                add_call(source, destination, plan);
            } else {
                const auto add_part = [&](const ferry::shape &part, const copy_plan &plan) noexcept -> failure {
                    add_call(part.source.kind, part.destination.kind, plan);
                    return {};
                };
                if (failure failed = for_each_planned_part(instance.cu, ranges, shape, facts, add_part)) return failed;
            }
            std::snprintf(found.driver_call, sizeof found.driver_call, "%s",
                          by_kernel ? "cuLaunchKernel" : driver_call_name(plan, form));
            found.context_device = facts.context_device;
            found.source_memory = public_kind(source);
            found.source_device = device_of(shape.source, source, facts.context_device);
            found.destination_memory = public_kind(destination);
            found.destination_device = device_of(shape.destination, destination, facts.context_device);
            found.width = shape.width;
            found.height = shape.height;
            found.depth = shape.depth;
            return {};
        });
    if (failed) return failed;
    return write_sized(found, explanation);
}

int32_t explain_and_report(ferry_instance *instance, const ferry_copy_desc *desc, copy_form form, CUstream stream,
                           ferry_explanation *explanation, ferry_error_info *error) noexcept {
    if (!instance || !desc || !explanation) return report(error, null_argument);
    return report(error, explain(*instance, *desc, form, stream, explanation));
}

ferry_copy_desc describe_bytes(uint64_t destination, uint64_t source, uint64_t size) noexcept {
    ferry_copy_desc desc = {};
    desc.source.address = source;
    desc.destination.address = destination;
    desc.width = size;
    return desc;
}

} // namespace
} // namespace ferry

using namespace ferry;

extern "C" {

int32_t ferry_copy(ferry_instance *instance, const ferry_copy_desc *copy, ferry_error_info *error) {
    return copy_and_report(instance, copy, copy_form::synchronous, nullptr, error);
}

int32_t ferry_copy_async(ferry_instance *instance, const ferry_copy_desc *copy, CUstream_st *stream,
                         ferry_error_info *error) {
    return copy_and_report(instance, copy, copy_form::asynchronous, stream, error);
}

int32_t ferry_copy_bytes(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                         ferry_error_info *error) {
    const ferry_copy_desc desc = describe_bytes(destination, source, size);
    return copy_and_report(instance, &desc, copy_form::synchronous, nullptr, error);
}

int32_t ferry_copy_bytes_async(ferry_instance *instance, uint64_t destination, uint64_t source, uint64_t size,
                               CUstream_st *stream, ferry_error_info *error) {
    const ferry_copy_desc desc = describe_bytes(destination, source, size);
    return copy_and_report(instance, &desc, copy_form::asynchronous, stream, error);
}

int32_t ferry_explain(ferry_instance *instance, const ferry_copy_desc *copy, ferry_explanation *explanation,
                      ferry_error_info *error) {
    return explain_and_report(instance, copy, copy_form::synchronous, nullptr, explanation, error);
}

int32_t ferry_explain_async(ferry_instance *instance, const ferry_copy_desc *copy, CUstream_st *stream,
                            ferry_explanation *explanation, ferry_error_info *error) {
    return explain_and_report(instance, copy, copy_form::asynchronous, stream, explanation, error);
}

uint64_t ferry_explanation_format(const ferry_explanation *explanation, char *buffer, uint64_t size) {
    if (!buffer) size = 0;
    if (size) buffer[0] = '\0';
    ferry_explanation known = {};
    if (!explanation || read_sized(explanation, known)) return 0;
    known.driver_call[sizeof known.driver_call - 1] = '\0'; // the caller's bytes
    return format_explanation(known, buffer, size);
}

} // extern "C"
