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

copy_plan plan_copy(const shape &shape, const plan_facts &facts) noexcept {
    copy_plan plan;
    plan.names_contexts =
        is_elsewhere(shape.source, facts.context_device) || is_elsewhere(shape.destination, facts.context_device);
    plan.synchronise_after = facts.form == copy_form::synchronous && driver_returns_early(shape);
    return plan;
}

} // namespace ferry
