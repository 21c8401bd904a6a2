#include "exec/kernel_view.h"

namespace ferry {

namespace {

// A kernel that accesses memory without access kills its context. So the driver's reports decide here, not the caller's
// statements.
obstacle find_obstacle(const address_facts &facts, const address_span &span, access wanted, bool is_reached) noexcept {
    if (facts.kind == memory_kind::pageable) return obstacle::pageable;
    if (!is_reached) return facts.kind == memory_kind::pinned ? obstacle::pageable : obstacle::no_peer_access;
    if (span.first < facts.range_start || span.last - facts.range_start >= facts.range_size) return obstacle::beyond;
    if (wanted == access::write && !facts.is_writable) return obstacle::read_only;
    return facts.kind == memory_kind::managed ? obstacle::managed : obstacle::none;
}

} // namespace

kernel_view view_of(const address_facts &facts, const address_span &span, access wanted, CUcontext context,
                    int context_device) noexcept {
    kernel_view view;
    view.why_not = find_obstacle(facts, span, wanted, is_reached_by_kernels(facts, context, context_device));
    view.address = facts.device_address;
    return view;
}

kernel_view view_of(array_surfaces &surfaces, CUarray array, CUcontext context) noexcept {
    kernel_view view;
    array_surface found;
    view.why_not = surfaces.find(array, context, found) ? obstacle::none : obstacle::array;
    view.surface = found.surface;
    view.form = array_form_of(found.has_rows, found.has_slices, found.is_layered);
    return view;
}

kernel_array_box array_box_of(const shape &shape, const kernel_views &views) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    return {.destination = {views.destination.address, to.row_pitch, to.row_pitch * to.slice_height},
            .surface = views.source.surface,
            .form = views.source.form,
            .x = from.x,
            .y = from.y,
            .z = from.z,
            .width = shape.width,
            .height = shape.height,
            .depth = shape.depth};
}

} // namespace ferry
