#include "plan/plan.h"

namespace ferry {

namespace {

bool is_elsewhere(const shape_end &end, int context_device) noexcept {
    return end.device >= 0 && end.device != context_device;
}

bool driver_returns_early(const shape &shape) noexcept {
    if (is_host(shape.destination.kind)) return false;
    return shape.source.kind != memory_kind::pinned || shape.destination.kind == memory_kind::managed;
}

} // namespace

blocking blocking_of(memory_kind source, memory_kind destination, copy_form form) noexcept {
    if (form == copy_form::synchronous || destination == memory_kind::pageable) return blocking::until_done;
    if (is_host(source) && is_host(destination)) return blocking::until_done;
    return source == memory_kind::pageable ? blocking::until_staged : blocking::no;
}

copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept {
    copy_plan plan;
    plan.names_contexts = !facts.is_captured && (is_elsewhere(shape.source, facts.context_device) ||
                                                 is_elsewhere(shape.destination, facts.context_device));
    plan.synchronise_after = facts.form == copy_form::synchronous && driver_returns_early(shape);
    return plan;
}

} // namespace ferry
