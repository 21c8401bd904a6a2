// What a copy would do, by the same way.
#include <algorithm>
#include <cstdio>

#include "call/copy.h"
#include "call/copy_way.h"
#include "route/parts.h"

namespace ferry {

namespace {

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

} // namespace

failure explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                     ferry_explanation &found) noexcept {
    static_assert(static_cast<int>(blocking::no) == FERRY_BLOCKS_NO &&
                  static_cast<int>(blocking::until_staged) == FERRY_BLOCKS_UNTIL_STAGED &&
                  static_cast<int>(blocking::until_done) == FERRY_BLOCKS_UNTIL_DONE);
    found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    return prepare_copy(instance, copy, form, stream, [&](const prepared_copy &prepared) noexcept -> failure {
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
}

} // namespace ferry
