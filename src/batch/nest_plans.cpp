#include "batch/nest_plans.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/rounding.h"

#include "copy/nest_overlap.h"
#include "device/stream_order.h"
#include "exec/kernel_view.h"
#include "memory/stream_buffer.h"
#include "submit/copy.h"

namespace ferry {

namespace {

shape_end end_of(const address_span &span, const ferry_place &place, const resolved_place &resolved) noexcept {
    shape_end end = {};
    end.kind = resolved.kind;
    end.device = resolved.device;
    end.span = span;
    end.file = place.kind == FERRY_KIND_FILE ? place.file : nullptr;
    return end;
}

// ---- Looking up memory

error look_up_end(ferry_instance &instance, const ferry_place &place, const address_span &span, host_use use,
                  std::int32_t side, CUstream stream, resolved_place &resolved) noexcept {
    const resolve_options options = {.ranges = &instance.pinned.ranges(),
                                     .use = use,
                                     .need_host_kind = true,
                                     .need_reach = true,
                                     .query_everything = true,
                                     .stream = stream};
    const row_layout all = {span.first, span.last - span.first + 1, 1, 0, 1, 0};
    if (error failed = instance.full_checks
                           ? resolve_checked(instance.cu, place, all, use, span, instance.mappings, options, resolved)
                           : resolve_place(instance.cu, place, span, options, resolved))
        return on_side(failed, side);
    if (instance.full_checks && is_freed(instance, resolved)) return refuse_freed(place.address, side);
    return check_range(end_of(span, place, resolved), side, resolved);
}

// Whether kernels can access an end of the nest, and at which address.
error view_end(ferry_instance &instance, const nest_site &site, const ferry_place &place, const address_span &span,
               access wanted, resolved_place &resolved, kernel_view &view) noexcept {
    if (place.kind == FERRY_KIND_FILE) {
        view.why_not = obstacle::file;
        return {};
    }
    const shape_end end = end_of(span, place, resolved);
    if (error failed = know_everything(instance.cu, end, resolved)) return failed;
    view = view_of(*resolved.facts, span, wanted, site.context, site.device);
    if (view.why_not == obstacle::managed) view.why_not = obstacle::none;
    return {};
}

// Replaces the address of memory that only kernels access by its address on the device.
error look_up_for_kernel(ferry_instance &instance, const nest_site &site, std::uint64_t size, access wanted,
                         std::int32_t side, std::int32_t field, std::uint64_t &address) noexcept {
    address_facts facts;
    if (error failed = look_up_address(instance.cu, address, address_query::everything_and_access, facts))
        return failed;
    const address_span span = {address, address + (size - 1)};
    const kernel_view view = view_of(facts, span, wanted, site.context, site.device);
    if (view.why_not == obstacle::beyond)
        return refuse(FERRY_ERROR_OUT_OF_BOUNDS, side, field, numbers::end, facts.range_start + facts.range_size,
                      span.last + 1);
    if (view.why_not != obstacle::none && view.why_not != obstacle::managed)
        return refuse_value(FERRY_ERROR_ADDRESS, side, field, address);
    address = view.address;
    return {};
}

error look_up_indices(ferry_instance &instance, const nest_site &site, nest_plan &plan) noexcept {
    for (int i = 0; i < plan.seen.axes; ++i) {
        nest_axis &axis = plan.seen.axis[i];
        const struct {
            nest_indices &list;
            std::int32_t side;
        } lists[] = {{axis.source_indices, FERRY_SIDE_SOURCE}, {axis.destination_indices, FERRY_SIDE_DESTINATION}};
        for (const auto &[list, side] : lists) {
            if (!list.address || list.is_on_host) continue;
            std::uint64_t bytes = 0;
            if (!multiply(axis.count, list.size(), bytes))
                return refuse(FERRY_ERROR_OVERFLOW, side, FERRY_FIELD_COUNT, numbers::at_most, UINT64_MAX / list.size(),
                              axis.count);
            if (error failed =
                    look_up_for_kernel(instance, site, bytes, access::read, side, FERRY_FIELD_INDICES, list.address))
                return failed;
        }
    }
    if (!plan.skipped) return {};
    return look_up_for_kernel(instance, site, sizeof(std::uint64_t), access::write, FERRY_SIDE_DESCRIPTOR,
                              FERRY_FIELD_SKIPPED, plan.skipped);
}

// ---- Planning

copy_direction direction_of(const nest_plan &plan, int device) noexcept {
    const resolved_place &from = plan.ends.source, &to = plan.ends.destination;
    if (is_host(from.kind)) return copy_direction::host_to_device;
    if (is_host(to.kind)) return copy_direction::device_to_host;
    const bool leaves = (from.device >= 0 && from.device != device) || (to.device >= 0 && to.device != device);
    return leaves ? copy_direction::between_devices : copy_direction::within_device;
}

// Whether the end can be packed: kernels cannot access it, and other routes copy its boxes.
bool is_packable(memory_kind kind) noexcept { return kind == memory_kind::pageable || kind == memory_kind::file; }

bool may_use_buffer(const ferry_instance &instance, const copy_preferences &wanted, const nest_site &site) noexcept {
    const bool is_other_route = wanted.forced != route_kind::none && wanted.forced != route_kind::staged;
    return !is_other_route && !wanted.no_wait && !wanted.no_kernels && !site.is_captured && !site.is_prepared &&
           instance.kernels.may_serve() && instance.buffers.are_supported();
}

nest_facts facts_of(const ferry_instance &instance, const nest_plan &plan, const copy_preferences &wanted,
                    const nest_site &site) noexcept {
    return {instance.profiles.of(site.device), plan.direction, wanted};
}

// Chooses a buffer if it makes the boxes of a pageable or file end larger, and the other end is on a device.
void choose_buffer(ferry_instance &instance, const copy_preferences &wanted, const nest_site &site,
                   const kernel_view &source, const kernel_view &destination, nest_plan &plan) noexcept {
    plan.packs_source = is_packable(plan.ends.source.kind);
    const kernel_view &other = plan.packs_source ? destination : source;
    const memory_kind kind = plan.packs_source ? plan.ends.destination.kind : plan.ends.source.kind;
    const bool is_packed = plan.packs_source || is_packable(plan.ends.destination.kind);
    if (!is_packed || is_packable(kind) || is_host(kind) || other.why_not != obstacle::none) return;
    nest seen = plan.given.moved;
    if (plan.packs_source)
        seen.destination += other.address - plan.given.destination_span.first;
    else
        seen.source += other.address - plan.given.source_span.first;
    plan.packing = nest_packing(seen, plan.packs_source, stream_buffer::max_bytes);
    const nest outer = plan.packing.first().outer;
    packed_facts facts;
    facts.pageable.direction = plan.packs_source ? copy_direction::host_to_device : copy_direction::device_to_host;
    facts.pageable.form = site.form;
    facts.pageable.bytes = plan.given.moved.bytes();
    facts.pageable.threads = plan.has_file() ? instance.file_threads : instance.staging_threads;
    facts.pageable.preferences = wanted;
    facts.pageable.profile = instance.profiles.of(site.device);
    facts.of = &plan.given.moved;
    facts.outer = &outer;
    facts.boxes = plan.boxes.count;
    facts.outer_boxes = cut_into_boxes(outer, instance.limits.max_pitch).count;
    facts.parts = plan.packing.parts();
    if (!is_nest_packed(facts) || instance.kernels.load_into(site.context, true)) return;
    plan.way = nest_way::buffer;
    plan.direction = copy_direction::within_device;
    plan.blocks = nest_blocks(facts_of(instance, plan, wanted, site), plan.packing.buffer_bytes());
}

// Finds out how a kernel would copy the nest, or why none can, and then chooses between the kernel and boxes. Device
// indices leave only the kernel.
error choose_kernel(ferry_instance &instance, const copy_preferences &wanted, const nest_site &site,
                    bool has_device_indices, nest_plan &plan) noexcept {
    kernel_view source, destination;
    if (error failed =
            view_end(instance, site, plan.given.source, plan.given.source_span, access::read, plan.ends.source, source))
        return failed;
    if (error failed = view_end(instance, site, plan.given.destination, plan.given.destination_span, access::write,
                                plan.ends.destination, destination))
        return failed;
    const bool is_on_host = is_host(plan.ends.source.kind) && is_host(plan.ends.destination.kind);
    const bool is_other_route = wanted.forced != route_kind::none && wanted.forced != route_kind::kernel;
    plan.why_no_kernel = wanted.no_kernels || is_other_route     ? obstacle::forbidden
                         : is_on_host                            ? obstacle::host_to_host
                         : source.why_not != obstacle::none      ? source.why_not
                         : destination.why_not != obstacle::none ? destination.why_not
                         : instance.kernels.may_serve()          ? obstacle::none
                                                                 : obstacle::not_loaded;
    if (plan.why_no_kernel != obstacle::none) {
        if (!has_device_indices && may_use_buffer(instance, wanted, site))
            choose_buffer(instance, wanted, site, source, destination, plan);
        return {};
    }
    plan.direction = direction_of(plan, site.device);
    plan.seen.source += source.address - plan.given.source_span.first;
    plan.seen.destination += destination.address - plan.given.destination_span.first;
    const nest_facts facts = facts_of(instance, plan, wanted, site);
    if (!has_device_indices) {
        shape box = first_box(plan.given.moved, plan.boxes);
        box.source.kind = plan.ends.source.kind;
        box.destination.kind = plan.ends.destination.kind;
        if (facts.profile) {
            plan.kernel_ns = predict_nest_kernel(facts, plan.seen);
            plan.boxes_ns = predict_nest_boxes(facts, box, plan.boxes.count);
        }
        if (!is_nest_for_kernel(facts, plan.kernel_ns, plan.boxes_ns, plan.boxes.count)) return {};
    }
    if (instance.kernels.load_into(site.context, !wanted.no_wait)) {
        plan.why_no_kernel = wanted.no_wait ? obstacle::not_prepared : obstacle::not_loaded;
        return {};
    }
    plan.way = nest_way::kernel;
    plan.blocks = nest_blocks(facts, plan.given.moved.bytes());
    plan.link = plan.direction == copy_direction::host_to_device   ? nest_link::from_host
                : plan.direction == copy_direction::device_to_host ? nest_link::to_host
                                                                   : nest_link::none;
    return look_up_indices(instance, site, plan);
}

// The nest needs a kernel that reads its indices.
error refuse_device_indices(const nest &of, obstacle why) noexcept {
    if (why == obstacle::forbidden || is_wait(why) || why == obstacle::not_loaded) return refuse_route(why);
    for (int i = 0; i < of.axes; ++i) {
        const nest_axis &axis = of.axis[i];
        if (!axis.has_device_indices()) continue;
        const bool at_source = axis.source_indices.address && !axis.source_indices.is_on_host;
        return refuse_signed(FERRY_ERROR_UNSUPPORTED, at_source ? FERRY_SIDE_SOURCE : FERRY_SIDE_DESTINATION,
                             FERRY_FIELD_INDEX_MEMORY, numbers::equal, FERRY_INDICES_HOST, FERRY_INDICES_DEVICE);
    }
    return refuse_route(why);
}

error choose(ferry_instance &instance, const copy_preferences &wanted, const nest_site &site,
             nest_plan &plan) noexcept {
    const nest &moved = plan.given.moved;
    const bool has_device_indices = std::any_of(moved.axis, moved.axis + moved.axes,
                                                [](const nest_axis &axis) { return axis.has_device_indices(); });
    plan.seen = moved;
    plan.skipped = plan.given.skipped;
    if (!has_device_indices) {
        plan.boxes = cut_into_boxes(moved, instance.limits.max_pitch);
        if (plan.boxes.count == 1) return {};
    }
    if (error failed = choose_kernel(instance, wanted, site, has_device_indices, plan)) return failed;
    if (plan.way == nest_way::kernel) {
        return site.is_captured && bytes_of_host_indices(plan.seen) != 0
                   ? refuse(FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_INDEX_MEMORY)
                   : ok;
    }
    if (has_device_indices) return refuse_device_indices(moved, plan.why_no_kernel);
    const bool is_refused = wanted.forced == route_kind::kernel || is_wait(plan.why_no_kernel);
    return is_refused && plan.why_no_kernel != obstacle::none ? refuse_route(plan.why_no_kernel) : ok;
}

} // namespace

error plan_nest(ferry_instance &instance, const ferry_nest &given, const call_options &options, const nest_site &site,
                nest_plan &plan, int &bad_axis) noexcept {
    const copy_preferences &wanted = options.preferences;
    if (error failed = validate_nest(given, instance.limits, plan.given, bad_axis)) return failed;
    if (plan.is_empty()) return {};
    if (wanted.no_wait && site.form == copy_form::synchronous) return refuse_route(obstacle::waits);
    if (error failed = look_up_end(instance, plan.given.source, plan.given.source_span, host_use::read,
                                   FERRY_SIDE_SOURCE, site.stream, plan.ends.source))
        return failed;
    if (error failed = look_up_end(instance, plan.given.destination, plan.given.destination_span, host_use::write,
                                   FERRY_SIDE_DESTINATION, site.stream, plan.ends.destination))
        return failed;
    normalize(plan.given.moved);
    if (options.checks_overlap) {
        const bool is_one_space =
            plan.ends.source.kind != memory_kind::file && plan.ends.destination.kind != memory_kind::file;
        if (error failed = refuse_shared_bytes(plan.given.moved, plan.given.destination_span, plan.given.source_span,
                                               is_one_space, instance.allocator))
            return failed;
    }
    return choose(instance, wanted, site, plan);
}

error enter_context_of_nests(ferry_instance &instance, const nest_input &input, context_scope &scope,
                             nest_site &site) noexcept {
    const auto find_device = [&](int &device) noexcept -> error {
        for (std::uint64_t i = 0; i < input.count && device < 0; ++i)
            for (const ferry_place *const place : {&input.nests[i].destination.place, &input.nests[i].source.place})
                if (device < 0)
                    if (error failed = find_device_of(instance.cu, instance.limits.device_count, *place, device))
                        return failed;
        return require_context(instance.contexts, input.options.preferences, std::max(device, 0));
    };
    context_choice choice;
    if (error failed = choose_context_by(instance.cu, instance.contexts, site.stream, find_device, choice))
        return failed;
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    site.context = choice.wanted;
    if (error failed = instance.contexts.device_of_current(choice.wanted, site.device)) return failed;
    if (site.form == copy_form::synchronous || site.is_prepared) return {};
    return query_capture(instance.cu, site.stream, site.is_captured);
}

namespace {

// In a table, each list begins at a multiple of 8.
std::uint64_t words_of_list(std::uint64_t count, const nest_indices &list) noexcept {
    return divide_up(count * list.size(), sizeof(std::uint64_t));
}

} // namespace

std::uint64_t bytes_of_host_indices(const nest &of) noexcept {
    std::uint64_t words = 0;
    for (int i = 0; i < of.axes; ++i)
        for (const nest_indices *const list : {&of.axis[i].source_indices, &of.axis[i].destination_indices})
            if (list->address && list->is_on_host) words += words_of_list(of.axis[i].count, *list);
    return words * sizeof(std::uint64_t);
}

void move_indices(nest &seen, std::uint64_t *table, std::uint64_t address) noexcept {
    for (int i = 0; i < seen.axes; ++i) {
        nest_axis &axis = seen.axis[i];
        for (nest_indices *const list : {&axis.source_indices, &axis.destination_indices}) {
            if (!list->address || !list->is_on_host) continue;
            std::memcpy(table, reinterpret_cast<const void *>(static_cast<std::uintptr_t>(list->address)),
                        axis.count * list->size());
            list->address = address;
            list->is_on_host = false;
            const std::uint64_t words = words_of_list(axis.count, *list);
            table += words;
            address += words * sizeof(std::uint64_t);
        }
    }
}

error_item item_of_nest(std::uint64_t index, int axis) noexcept {
    if (axis == no_axis) return {FERRY_ITEM_NEST, index};
    return {FERRY_ITEM_AXIS, index * FERRY_NEST_AXES + static_cast<std::uint64_t>(axis)};
}

} // namespace ferry
