// Completes batch/request.h: the copies of pieces, and the routes of a batch, which plan/batch_plan.h chooses by groups.
#include "batch/request.h"

#include <algorithm>
#include <iterator>

#include "batch/pageable.h"
#include "routes/ranking.h"
#include "routes/relayed.h"
#include "submit/instance.h"

namespace ferry {

shape shape_of(const batch_piece &piece, const known_ranges &ranges) noexcept {
    const auto end_of = [&](std::uint64_t address, std::uint32_t range) noexcept {
        shape_end end = {};
        end.kind = ranges[range].kind;
        end.device = ranges[range].device;
        end.span = {address, address + (piece.size - 1)};
        end.row_pitch = piece.size;
        end.slice_height = 1;
        return end;
    };
    return {end_of(piece.source, piece.from), end_of(piece.destination, piece.to), piece.size, 1, 1};
}

void know_ends(const checked_batch &batch, const shape &shape, const known_ends &known, resolved_ends &ends) noexcept {
    const auto know = [&](const shape_end &end, std::uint32_t index, resolved_place &place) noexcept {
        if (!end.array && batch.ranges.facts_at(end.span.first, index, place.facts.emplace()))
            place.query = address_query::everything_and_access;
    };
    know(shape.source, known.from, ends.source);
    know(shape.destination, known.to, ends.destination);
}

namespace {

obstacle batch_call_obstacle(bool has_entry_point, bool is_taken) noexcept {
    return !has_entry_point ? obstacle::no_entry_point : is_taken ? obstacle::none : obstacle::default_stream;
}

// Plans, and plans again without kernels if the plan needs kernels that cannot be loaded.
template <class Plan>
void plan_with_kernels(ferry_instance &instance, CUcontext context, batch_site &site, const Plan &plan) noexcept {
    site.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded;
    if (!plan() || !instance.kernels.load_into(context, !site.preferences.no_wait)) return;
    site.kernels = site.preferences.no_wait ? obstacle::not_prepared : obstacle::not_loaded;
    plan();
}

// Moves boxes of arrays that kernels cannot read to the group `apart`.
error look_up_array_views(const ferry_instance &instance, batch_request &request) noexcept {
    request.array_views.clear();
    if (!request.array_views.reserve(request.arrays.size())) return no_memory;
    for (std::uint32_t i = 0; i < request.arrays.size(); ++i) {
        kernel_view view;
        view.why_not = instance.surfaces.may_serve(request.arrays[i].array, request.context.wanted) ? obstacle::none
                                                                                                    : obstacle::array;
        request.array_views.append_reserved(view);
    }
    for (batch_box &box : request.boxes)
        if (box.source() == from_array && request.array_views[box.from].why_not != obstacle::none)
            box.group = piece_group::apart;
    return {};
}

// Finds the surface of each array that kernels will read, and creates it if necessary. Each surface is looked up once.
void find_surfaces(ferry_instance &instance, batch_request &request) noexcept {
    for (batch_box &box : request.boxes) {
        if (box.route != batch_route::kernel || box.source() != from_array) continue;
        kernel_view &view = request.array_views[box.from];
        if (view.why_not == obstacle::none && !view.surface)
            view = view_of(instance.surfaces, box.shape.source.array, request.context.wanted);
        if (view.why_not == obstacle::none) continue;
        box.route = batch_route::calls;
        box_launch &launch = request.box_launches[from_array][static_cast<int>(box.group)];
        --launch.count;
        launch.bytes -= box.bytes();
    }
}

// The remaining boxes use a batch call if it supports at least two of them.
error plan_box_calls(const ferry_instance &instance, bool takes_batch_calls, batch_request &request) noexcept {
    request.operations.clear();
    if (!takes_batch_calls || !has_box_batches(instance.cu)) return {};
    if (!request.operations.reserve(request.boxes.size())) return no_memory;
    batch_box *last = nullptr;
    for (batch_box &box : request.boxes) {
        CUDA_MEMCPY3D_BATCH_OP operation;
        if (box.route != batch_route::calls || !lower(box.shape, box.element, operation)) continue;
        request.operations.append_reserved(operation);
        box.route = batch_route::batch_call;
        last = &box;
    }
    if (request.operations.size() != 1) return {};
    last->route = batch_route::calls;
    request.operations.clear();
    return {};
}

// Why kernels cannot copy a piece.
obstacle why_apart(const batch_request &request, const batch_piece &piece) noexcept {
    const known_range &from = request.ranges[piece.from], &to = request.ranges[piece.to];
    if (is_host(from.kind) && is_host(to.kind)) return obstacle::host_to_host;
    if (from.kind == memory_kind::pageable || to.kind == memory_kind::pageable) return obstacle::pageable;
    return from.is_reached && to.is_reached ? obstacle::read_only : obstacle::no_peer_access;
}

// The plan of a single copy between memory that kernels can access.
copy_plan plan_alone(const batch_site &site, const shape &shape) noexcept {
    plan_facts facts = {.profile = site.profile};
    facts.call = {.context_device = site.context_device, .form = copy_form::asynchronous};
    facts.call.preferences = site.preferences;
    facts.kernels = {.why_not = site.kernels, .source_reach = obstacle::none, .destination_reach = obstacle::none};
    return plan_copy(shape, facts);
}

// Why the forced route cannot serve a piece of a group that is refused. If the route does not serve groups, a single
// copy of the piece has a reason of its own, unless the route would serve it.
obstacle why_refused(const batch_request &request, const batch_site &site, const batch_piece &piece,
                     obstacle of_group) noexcept {
    if (of_group == obstacle::not_known) return why_apart(request, piece);
    const shape shape = shape_of(piece, request.ranges);
    const call_facts call = {.context_device = site.context_device, .preferences = site.preferences};
    if (of_group != obstacle::no_route || may_be_relayed(shape, call)) return of_group;
    return plan_alone(site, shape).refused;
}

} // namespace

error choose_batch_routes(ferry_instance &instance, const batch_input &input, bool takes_batch_calls,
                          const batch_plan *ways, batch_request &request) noexcept {
    if (!request.pieces.sort(request.ranges)) return no_memory;
    batch_site site = {.context_device = request.context_device,
                       .line_calls = batch_call_obstacle(has_line_batches(instance.cu), takes_batch_calls),
                       .box_calls = batch_call_obstacle(has_box_batches(instance.cu), takes_batch_calls),
                       .preferences = request.preferences,
                       .profile = instance.profiles.of(request.context_device)};
    if (ways)
        std::copy_n(ways, piece_groups, request.plans);
    else
        plan_with_kernels(instance, request.context.wanted, site,
                          [&]() noexcept { return plan_pieces(site, request.pieces, request.plans); });
    for (int group = 0; group < piece_groups; ++group)
        if (const obstacle why = request.plans[group].refused; why != obstacle::none) {
            const batch_piece &first = *request.pieces.begin(group);
            request.bad_index = index_of(instance, input, shape_of(first, request.ranges));
            return refuse_route(why_refused(request, site, first, why));
        }
    request.lines.clear();
    for (int group = 0; group < piece_groups; ++group)
        if (request.plans[group].route == batch_route::batch_call)
            if (!request.lines.append(request.pieces.begin(group), request.pieces.facts(group).count)) return no_memory;
    if (request.arrays.size())
        if (error failed = look_up_array_views(instance, request)) return failed;
    const auto takes_kernel = [&](const shape &shape) noexcept {
        return plan_alone(site, shape).route == route_kind::kernel;
    };
    plan_with_kernels(instance, request.context.wanted, site,
                      [&]() noexcept { return plan_boxes(site, request.boxes, request.box_launches, takes_kernel); });
    find_surfaces(instance, request);
    plan_pageable(instance, request);
    return plan_box_calls(instance, takes_batch_calls, request);
}

bool is_single_call(const batch_request &request) noexcept {
    if (request.pieces.size() + request.boxes.size() != 1) return false;
    if (request.boxes.size() == 1) return request.boxes[0].route == batch_route::calls;
    return std::none_of(std::begin(request.plans), std::end(request.plans),
                        [](const batch_plan &plan) { return plan.route != batch_route::calls; });
}

} // namespace ferry
