#include "batch/nests.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "batch/batch.h"
#include "batch/launches.h"
#include "copy/nest_boxes.h"
#include "copy/nest_fields.h"
#include "copy/nest_overlap.h"
#include "device/stream_order.h"
#include "exec/kernel_launch.h"
#include "exec/kernel_view.h"
#include "plan/predict.h"
#include "routes/ends.h"
#include "submit/copy.h"
#include "submit/note_error.h"

namespace ferry {

namespace {

// More boxes than this take longer than a kernel that copies all of them.
constexpr std::uint64_t few_boxes = 8;
// The boxes that one batch copies, if a nest has more.
constexpr std::size_t boxes_at_once = 4096;

// A nest whose route is chosen. It is executed or explained.
struct nest_plan {
    checked_nest given;
    resolved_ends ends;
    nest_boxes boxes;
    bool by_kernel = false;
    obstacle why_no_kernel = obstacle::none;
    // For a kernel.
    nest seen; // at the addresses of the context's device
    nest_link link = nest_link::none;
    copy_direction direction = copy_direction::within_device;
    std::uint64_t skipped = 0;
    std::uint64_t host_indices = 0; // bytes of all lists in host memory
};

struct nest_site {
    CUcontext context;
    int device;
    CUstream stream;
    copy_form form;
    bool is_captured;
};

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
            if (!list.address) continue;
            if (list.is_on_host)
                plan.host_indices += axis.count * sizeof(std::uint64_t);
            else if (error failed = look_up_for_kernel(instance, site, axis.count * list.size(), access::read, side,
                                                       FERRY_FIELD_INDICES, list.address))
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

// Finds out why no kernel can copy the nest, and how a kernel would.
error plan_kernel(ferry_instance &instance, const copy_preferences &wanted, const nest_site &site,
                  nest_plan &plan) noexcept {
    plan.seen = plan.given.moved;
    plan.skipped = plan.given.skipped;
    kernel_view source, destination;
    if (error failed =
            view_end(instance, site, plan.given.source, plan.given.source_span, access::read, plan.ends.source, source))
        return failed;
    if (error failed = view_end(instance, site, plan.given.destination, plan.given.destination_span, access::write,
                                plan.ends.destination, destination))
        return failed;
    const bool is_on_host = is_host(plan.ends.source.kind) && is_host(plan.ends.destination.kind);
    plan.why_no_kernel = wanted.no_kernels                       ? obstacle::forbidden
                         : is_on_host                            ? obstacle::host_to_host
                         : source.why_not != obstacle::none      ? source.why_not
                         : destination.why_not != obstacle::none ? destination.why_not
                         : instance.kernels.may_serve()          ? obstacle::none
                                                                 : obstacle::not_loaded;
    if (plan.why_no_kernel != obstacle::none) return {};
    if (instance.kernels.load_into(site.context, !wanted.no_wait)) {
        plan.why_no_kernel = wanted.no_wait ? obstacle::not_prepared : obstacle::not_loaded;
        return {};
    }
    plan.seen.source += source.address - plan.given.source_span.first;
    plan.seen.destination += destination.address - plan.given.destination_span.first;
    plan.direction = direction_of(plan, site.device);
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
    if (!has_device_indices) {
        plan.boxes = cut_into_boxes(moved, instance.limits.max_pitch);
        if (plan.boxes.count <= few_boxes) return {};
    }
    const bool is_other_route = wanted.forced != route_kind::none && wanted.forced != route_kind::kernel;
    if (is_other_route)
        plan.why_no_kernel = obstacle::forbidden;
    else if (error failed = plan_kernel(instance, wanted, site, plan))
        return failed;
    plan.by_kernel = plan.why_no_kernel == obstacle::none;
    if (plan.by_kernel) {
        const bool reads_in_call = plan.host_indices != 0;
        return reads_in_call && site.is_captured
                   ? refuse(FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_INDEX_MEMORY)
                   : ok;
    }
    if (has_device_indices) return refuse_device_indices(moved, plan.why_no_kernel);
    return wanted.forced == route_kind::kernel || is_wait(plan.why_no_kernel) ? refuse_route(plan.why_no_kernel) : ok;
}

error prepare(ferry_instance &instance, const ferry_nest &given, const call_options &options, const nest_site &site,
              nest_plan &plan, int &bad_axis) noexcept {
    const copy_preferences &wanted = options.preferences;
    if (error failed = validate_nest(given, instance.limits, plan.given, bad_axis)) return failed;
    if (plan.given.moved.is_empty()) return {};
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

// ---- Running

std::uint32_t blocks_of(const ferry_instance &instance, const nest_plan &plan, const copy_preferences &wanted,
                        int device) noexcept {
    const device_profile *const profile = instance.profiles.of(device);
    constexpr std::uint32_t few = 8; // if the device was not measured
    if (!profile) return wanted.max_blocks ? std::min<std::uint32_t>(wanted.max_blocks, few) : few;
    const double bytes = static_cast<double>(plan.given.moved.bytes());
    // With several blocks for each SM, an SM that is ahead takes the next block.
    const bool in_waves = plan.direction == copy_direction::within_device && !wanted.max_blocks;
    constexpr unsigned access = 16, blocks_per_sm = 8;
    const unsigned blocks = blocks_for((*profile)[plan.direction], plan.direction, bytes, access, wanted.max_blocks);
    return in_waves ? blocks * blocks_per_sm : blocks;
}

// Copies the indices in host memory to `table`, from which kernels read them at `address`.
void move_indices(nest &seen, std::uint64_t *table, std::uint64_t address) noexcept {
    for (int i = 0; i < seen.axes; ++i) {
        nest_axis &axis = seen.axis[i];
        for (nest_indices *const list : {&axis.source_indices, &axis.destination_indices}) {
            if (!list->address || !list->is_on_host) continue;
            std::memcpy(table, reinterpret_cast<const void *>(static_cast<std::uintptr_t>(list->address)),
                        axis.count * list->size());
            list->address = address;
            list->is_on_host = false;
            table += axis.count;
            address += axis.count * sizeof(std::uint64_t);
        }
    }
}

error run_kernel(ferry_instance &instance, const nest_plan &plan, const copy_preferences &wanted,
                 const nest_site &site) noexcept {
    const std::uint32_t blocks = blocks_of(instance, plan, wanted, site.device);
    const auto launch = [&](const nest &seen) noexcept {
        return launch_nest(instance.cu, instance.kernels, seen, plan.link, plan.skipped, blocks, site.stream);
    };
    if (!plan.host_indices) return launch(plan.seen);
    void *table = nullptr;
    if (error failed = instance.tables.allocate(plan.host_indices, table, !wanted.no_wait))
        return failed.status == FERRY_ERROR_LIMIT && wanted.no_wait ? refuse_route(obstacle::busy) : failed;
    address_facts facts;
    error failed =
        look_up_address(instance.cu, reinterpret_cast<std::uintptr_t>(table), address_query::everything, facts);
    if (!failed) {
        nest seen = plan.seen;
        move_indices(seen, static_cast<std::uint64_t *>(table), facts.device_address);
        failed = launch(seen);
    }
    const error passed = free_table(instance, site.stream, table);
    return failed ? failed : passed;
}

bool has_file(const nest_plan &plan) noexcept {
    return plan.given.source.kind == FERRY_KIND_FILE || plan.given.destination.kind == FERRY_KIND_FILE;
}

// Runs the boxes of a nest as batches.
error run_boxes(ferry_instance &instance, const nest_plan &plan, const call_options &options, const nest_site &site,
                ferry_ticket *ticket) noexcept {
    const bool is_file = has_file(plan);
    growing<ferry_copy_desc> boxes(instance.allocator);
    call_options of_batch = options;
    of_batch.checks_overlap = false; // the nest was checked
    if (site.form == copy_form::synchronous) of_batch.preferences.follow_the_stream();
    const auto run = [&]() noexcept {
        std::uint64_t ignored = no_index;
        const batch_input batch = {.copies = boxes.begin(), .count = boxes.size(), .options = of_batch};
        const error failed = run_batch(instance, batch, site.form, site.stream, is_file ? ticket : nullptr, ignored);
        boxes.clear();
        if (ticket) ticket->item = FERRY_ITEM_NONE; // the program knows no boxes
        return failed;
    };
    const auto add = [&](const ferry_copy_desc &box) noexcept -> error {
        if (!boxes.append(box)) return no_memory;
        return boxes.size() == boxes_at_once && !is_file ? run() : ok; // a file has one ticket for all boxes
    };
    if (error failed = for_each_box(plan.given.moved, plan.boxes, plan.given.destination, plan.given.source, add))
        return failed;
    return boxes.size() ? run() : ok;
}

error run(ferry_instance &instance, const nest_plan &plan, const call_options &options, const nest_site &site,
          ferry_ticket *ticket) noexcept {
    if (!plan.by_kernel) return run_boxes(instance, plan, options, site, ticket);
    const std::uint64_t begin_ns = site.form == copy_form::synchronous ? clock_ns() : 0;
    if (error failed = run_kernel(instance, plan, options.preferences, site)) return failed;
    if (instance.trace) instance.trace.note(route_kind::kernel, site.context);
    error passed;
    if (site.form == copy_form::synchronous) passed = wait_for_legacy_stream(instance.cu);
    instance.counters.add(site.device, route_kind::kernel, site.stream, 1, plan.given.moved.bytes(),
                          begin_ns ? clock_ns() - begin_ns : 0);
    return passed;
}

// Enters the context of the call, as for a batch: for a default stream of a thread without a context, the context of the
// first device that a nest names.
error enter(ferry_instance &instance, const nest_input &input, CUstream stream, context_scope &scope,
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
    if (error failed = choose_context_by(instance.cu, instance.contexts, stream, find_device, choice)) return failed;
    if (error failed = scope.enter(choice.wanted, choice.current)) return failed;
    site.context = choice.wanted;
    if (error failed = instance.contexts.device_of_current(choice.wanted, site.device)) return failed;
    return site.form == copy_form::synchronous ? ok : query_capture(instance.cu, stream, site.is_captured);
}

error_item item_of(std::uint64_t index, int axis) noexcept {
    if (axis == no_axis) return {FERRY_ITEM_NEST, index};
    return {FERRY_ITEM_AXIS, index * FERRY_NEST_AXES + static_cast<std::uint64_t>(axis)};
}

} // namespace

error run_nests(ferry_instance &instance, const nest_input &input, copy_form form, CUstream stream,
                ferry_ticket *ticket, error_item &bad) noexcept {
    bad = {};
    if (input.count == 0) return {};
    nest_site site = {nullptr, -1, stream, form, false};
    context_scope scope(instance.cu);
    if (error failed = enter(instance, input, stream, scope, site)) return failed;
    nest_plan plan;
    int bad_axis = no_axis;
    const auto prepare_one = [&](std::uint64_t i) noexcept {
        plan = {};
        const error failed = prepare(instance, input.nests[i], input.options, site, plan, bad_axis);
        if (failed) bad = item_of(i, bad_axis);
        return failed;
    };
    // All nests are checked before any is copied.
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (error failed = prepare_one(i)) return failed;
        if (!ticket && form == copy_form::asynchronous && !plan.given.moved.is_empty() && has_file(plan))
            return refuse_value(FERRY_ERROR_INVALID_ARGUMENT, FERRY_SIDE_NONE, FERRY_FIELD_TICKET, 0);
    }
    if (error failed = begin_ticket(ticket, stream)) return failed;
    for (std::uint64_t i = 0; i < input.count; ++i) {
        if (input.count > 1)
            if (error failed = prepare_one(i)) return failed;
        if (plan.given.moved.is_empty()) continue;
        if (error failed = noted(instance, run(instance, plan, input.options, site, ticket))) {
            bad = item_of(i, no_axis);
            return failed;
        }
    }
    return end_ticket(ticket, stream);
}

error explain_nest(ferry_instance &instance, const nest_input &input, CUstream stream, ferry_explanation &found,
                   error_item &bad) noexcept {
    found = {};
    found.context_device = found.source_device = found.destination_device = -1;
    bad = {};
    nest_site site = {nullptr, -1, stream, copy_form::asynchronous, false};
    context_scope scope(instance.cu);
    if (error failed = enter(instance, input, stream, scope, site)) return failed;
    nest_plan plan;
    int bad_axis = no_axis;
    if (error failed = prepare(instance, *input.nests, input.options, site, plan, bad_axis)) {
        bad = item_of(0, bad_axis);
        return failed;
    }
    const nest &moved = plan.given.moved;
    if (moved.is_empty()) return {};
    if (!plan.by_kernel) {
        // All boxes take the route of the first box.
        const auto explain = [&](const ferry_copy_desc &box) noexcept -> error {
            if (found.calls) return {};
            return explain_copy(instance, box, input.options.preferences, site.form, stream, found);
        };
        if (error failed = for_each_box(moved, plan.boxes, plan.given.destination, plan.given.source, explain))
            return failed;
        found.calls = static_cast<std::uint32_t>(std::min<std::uint64_t>(plan.boxes.count, UINT32_MAX));
        if (plan.boxes.count > few_boxes) found.kernel_obstacle = static_cast<std::int32_t>(plan.why_no_kernel);
        return {};
    }
    found.calls = 1;
    found.route = FERRY_ROUTE_KERNEL;
    found.reason =
        input.options.preferences.forced == route_kind::kernel ? FERRY_REASON_FORCED : FERRY_REASON_PREDICTED;
    found.context_device = site.device;
    const ferry_device_info &device = instance.devices[site.device].info;
    found.max_sms = std::min(blocks_of(instance, plan, input.options.preferences, site.device),
                             static_cast<std::uint32_t>(device.sm_count));
    std::snprintf(found.driver_call, sizeof found.driver_call, "cuLaunchKernel");
    found.source_memory = public_kind(plan.ends.source.kind);
    found.destination_memory = public_kind(plan.ends.destination.kind);
    found.source_device = plan.ends.source.device;
    found.destination_device = plan.ends.destination.device;
    found.width = moved.run;
    found.height = moved.run ? moved.bytes() / moved.run : 0;
    found.depth = 1;
    found.profile = origin_of(instance.profiles.of(site.device), device);
    return {};
}

} // namespace ferry
