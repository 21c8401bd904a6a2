// Makes a copy a node of a graph: the pipeline of a copy under capture, with the driver's call as the only route.
#include "copy/split.h"
#include "routes/driver.h"
#include "submit/copy.h"
#include "submit/run_step.h"

namespace ferry {

namespace {

// The driver rejects a copy whose host memory is registered in pieces.
error refuse_several_calls(const ferry_instance &instance, const shape &shape) noexcept {
    const auto check = [&](const shape_end &end, std::int32_t side) noexcept {
        ferry::shape alone = {};
        alone.source = end;
        alone.destination.kind = memory_kind::device;
        return crosses_border(alone, instance.pinned.ranges())
                   ? refuse_value(FERRY_ERROR_UNSUPPORTED, side, FERRY_FIELD_ADDRESS, end.span.first)
                   : ok;
    };
    if (error failed = check(shape.source, FERRY_SIDE_SOURCE)) return failed;
    return check(shape.destination, FERRY_SIDE_DESTINATION);
}

} // namespace

error set_copy(ferry_instance &instance, const ferry_copy_desc &copy, const copy_preferences &wanted,
               graph_target &target) noexcept {
    const auto set = [&](prepared_copy &prepared) noexcept -> error {
        copy_step &step = prepared.step;
        copy_site site = prepared.site(nullptr);
        site.node = &target;
        step.plan = plan_for_driver(step.shape, step.call);
        if (error failed = refuse_several_calls(instance, step.shape)) return failed;
        if (error failed = check_capture(instance, step, site)) return failed;
        return copy_by_driver(instance, step.shape, step.call, step.plan, site);
    };
    if (error failed =
            with_prepared_copy(instance, copy, wanted, copy_form::asynchronous, nullptr, purpose::become_node, set))
        return find_refused_field(instance, copy, copy_form::asynchronous, nullptr, failed);
    return target.is_set ? ok : empty_node;
}

} // namespace ferry
