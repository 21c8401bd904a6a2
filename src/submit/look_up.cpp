#include "submit/look_up.h"

#include "routes/ends.h"

namespace ferry {

error find_device_of(const ferry_instance &instance, const ferry_place &place, int &device) noexcept {
    device = -1;
    const bool is_stated = place.kind == FERRY_KIND_DEVICE || place.kind == FERRY_KIND_ARRAY;
    if (is_stated && place.device >= 0) { // a batch's fields are not validated yet
        if (place.device < instance.limits.device_count) device = place.device;
        return {};
    }
    if (place.kind != FERRY_KIND_ANY && place.kind != FERRY_KIND_DEVICE) return {};
    address_facts facts;
    if (error failed = look_up_address(instance.cu, place.address, address_query::kind_only, facts)) return failed;
    device = facts.device;
    return {};
}

error look_up_arrays(const ferry_instance &instance, const ferry_copy_desc &copy, resolved_ends &ends) noexcept {
    const auto look_up = [&](const ferry_place &place, resolved_place &end) noexcept -> error {
        if (end.kind != memory_kind::array) return {};
        if (error failed = look_up_array(instance.cu, instance.surfaces, place, end.array)) return failed;
        return resolve_array_device(place, end.array, end.device);
    };
    if (error failed = look_up(copy.source, ends.source)) return on_side(failed, FERRY_SIDE_SOURCE);
    return on_side(look_up(copy.destination, ends.destination), FERRY_SIDE_DESTINATION);
}

error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept {
    kernel_facts &kernels = facts.kernels;
    const bool is_staged = is_pageable(shape);
    const auto look_up = [&](const shape_end &end, resolved_place &place, access wanted, kernel_view &view,
                             obstacle &reach) noexcept -> error {
        if (end.kind == memory_kind::pageable) {
            // A kernel that accessed unreadable memory would kill its context; the driver rejects it with an error.
            const bool is_reached = kernels.reaches_pageable && is_readable(instance, end.span);
            view.why_not = is_reached ? obstacle::none : obstacle::pageable;
            view.address = end.span.first;
        } else if (!end.array) {
            if (error failed = know_everything(instance.cu, end, place)) return failed;
            view = view_of(*place.facts, end.span, wanted, context, facts.call.context_device);
        } else if (wanted == access::read || is_staged) {
            view = view_of(instance.surfaces, end.array, context);
        } else {
            view.why_not = obstacle::array;
        }
        reach = view.why_not;
        return {};
    };
    if (error failed = look_up(shape.source, ends.source, access::read, views.source, kernels.source_reach))
        return failed;
    if (error failed =
            look_up(shape.destination, ends.destination, access::write, views.destination, kernels.destination_reach))
        return failed;
    facts.staging.reach = is_host(shape.source.kind) ? kernels.destination_reach : kernels.source_reach;
    return {};
}

} // namespace ferry
