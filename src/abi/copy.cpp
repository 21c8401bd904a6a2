// The copies: lay out, resolve, check, choose the context, plan, run.
#include "abi/instance.h"
#include "copy/shape.h"
#include "plan/plan.h"
#include "route/driver_route.h"

namespace ferry {
namespace {

// Errors of the memory layer know the field; which side it is about is known here.
failure on_side(failure failed, std::int32_t side) noexcept {
    if (failed.field != FERRY_FIELD_NONE) failed.side = side;
    return failed;
}

failure resolve_ends(const ferry_instance &instance, const ferry_copy_desc &copy, const shape &shape, copy_form form,
                     resolved_ends &ends) noexcept {
    // Whether the driver returns early hangs on the source being pageable, unless both ends are the host's.
    const bool need_host_kind = form == copy_form::synchronous && copy.destination.kind != FERRY_KIND_HOST;
    if (failure failed = resolve_place(instance.cu, copy.source, shape.source.span,
                                       {instance.full_checks, need_host_kind}, ends.source))
        return on_side(failed, FERRY_SIDE_SOURCE);
    if (failure failed = resolve_place(instance.cu, copy.destination, shape.destination.span,
                                       {instance.full_checks, false}, ends.destination))
        return on_side(failed, FERRY_SIDE_DESTINATION);
    return {};
}

[[gnu::noinline]] failure look_up_arrays(const driver_table &cu, const ferry_copy_desc &copy,
                                         resolved_ends &ends) noexcept {
    if (ends.source.kind == memory_kind::array)
        if (failure failed = look_up_array(cu, copy.source, ends.source.array))
            return on_side(failed, FERRY_SIDE_SOURCE);
    if (ends.destination.kind == memory_kind::array)
        if (failure failed = look_up_array(cu, copy.destination, ends.destination.array))
            return on_side(failed, FERRY_SIDE_DESTINATION);
    return {};
}

// An end on the device of the copy's context keeps that context.
[[gnu::noinline]] failure find_contexts(ferry_instance &instance, const shape &shape, int context_device,
                                        end_contexts &contexts) noexcept {
    const auto find = [&](const shape_end &end, CUcontext &found) noexcept -> failure {
        if (end.device < 0 || end.device == context_device) return {};
        return instance.contexts.get(end.device, found);
    };
    if (failure failed = find(shape.source, contexts.source)) return failed;
    return find(shape.destination, contexts.destination);
}

failure copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream) noexcept {
    shape shape;
    if (failure failed = lay_out(copy, instance.limits, shape)) return failed;
    if (shape.empty()) return {};

    resolved_ends resolved;
    if (failure failed = resolve_ends(instance, copy, shape, form, resolved)) return failed;
    context_choice choice;
    if (failure failed = choose_context(instance.cu, instance.contexts, stream, resolved.destination.device,
                                        resolved.source.device, choice))
        return failed;
    context_scope scope(instance.cu);
    if (failure failed = scope.enter(choice.wanted, choice.current)) return failed;
    if (shape.source.array || shape.destination.array)
        if (failure failed = look_up_arrays(instance.cu, copy, resolved)) return failed;
    if (failure failed = settle(resolved, instance.limits, shape)) return failed;

    plan_facts facts = {.form = form};
    if (failure failed = instance.contexts.device_of_current(choice.wanted, facts.context_device)) return failed;
    const copy_plan plan = plan_copy(shape, facts);
    end_contexts contexts = {choice.wanted, choice.wanted};
    if (plan.names_contexts)
        if (failure failed = find_contexts(instance, shape, facts.context_device, contexts)) return failed;
    return run_driver_route(instance.cu, shape, plan, form, contexts, stream);
}

int32_t copy_and_report(ferry_instance *instance, const ferry_copy_desc *desc, copy_form form, CUstream stream,
                        ferry_error_info *error) noexcept {
    if (!instance || !desc) return report(error, null_argument);
    return report(error, copy(*instance, *desc, form, stream));
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

} // extern "C"
