// The second part of a batch: its pieces and boxes go by groups, as plan/batch_groups.h says.
#include <algorithm>
#include <iterator>

#include "submit/batch_request.h"
#include "submit/instance.h"

namespace ferry {

namespace {

obstacle batch_call_obstacle(bool has_entry_point, bool is_taken) noexcept {
    return !has_entry_point ? obstacle::no_entry_point : is_taken ? obstacle::none : obstacle::default_stream;
}

// Plans, and once more without kernels where some are wanted and cannot be loaded.
template <class Plan>
void plan_with_kernels(ferry_instance &instance, CUcontext context, batch_site &site, const Plan &plan) noexcept {
    site.kernels = instance.kernels.may_serve() ? obstacle::none : obstacle::not_loaded;
    if (!plan() || !instance.kernels.load_into(context)) return;
    site.kernels = obstacle::not_loaded;
    plan();
}

// Arrays that kernels do not read keep their boxes apart.
failure look_up_views(const ferry_instance &instance, batch_job &job) noexcept {
    job.array_views.clear();
    if (!job.array_views.reserve(job.arrays.size())) return no_memory;
    for (std::uint32_t i = 0; i < job.arrays.size(); ++i) {
        kernel_view view;
        view.why_not =
            instance.surfaces.may_serve(job.arrays[i].array, job.context.wanted) ? obstacle::none : obstacle::array;
        job.array_views.append_reserved(view);
    }
    for (batch_box &box : job.boxes)
        if (box.source() == from_array && job.array_views[box.from].why_not != obstacle::none)
            box.group = piece_group::apart;
    return {};
}

// Of the arrays that kernels are to read: each surface is looked up once, and made if need be.
void find_surfaces(ferry_instance &instance, batch_job &job) noexcept {
    for (batch_box &box : job.boxes) {
        if (box.way != box_way::kernel || box.source() != from_array) continue;
        kernel_view &view = job.array_views[box.from];
        if (view.why_not == obstacle::none && !view.surface)
            view = look_up_for_kernels(instance.surfaces, box.shape.source.array, job.context.wanted);
        if (view.why_not != obstacle::none) box.way = box_way::call;
    }
}

// What is left goes by a batch call, if that takes several.
failure plan_box_calls(const ferry_instance &instance, bool takes_batch_calls, batch_job &job) noexcept {
    job.operations.clear();
    if (!takes_batch_calls || !has_box_batches(instance.cu)) return {};
    if (!job.operations.reserve(job.boxes.size())) return no_memory;
    batch_box *last = nullptr;
    for (batch_box &box : job.boxes) {
        CUDA_MEMCPY3D_BATCH_OP operation;
        if (box.way != box_way::call || !lower(box.shape, box.element, operation)) continue;
        job.operations.append_reserved(operation);
        box.way = box_way::batch_call;
        last = &box;
    }
    if (job.operations.size() != 1) return {};
    last->way = box_way::call;
    job.operations.clear();
    return {};
}

// Why no kernel takes a piece.
obstacle why_apart(const batch_job &job, const batch_piece &piece) noexcept {
    const known_range &from = job.ranges[piece.from], &to = job.ranges[piece.to];
    if (is_host(from.kind) && is_host(to.kind)) return obstacle::host_to_host;
    if (from.kind == memory_kind::pageable || to.kind == memory_kind::pageable) return obstacle::pageable;
    return from.is_reached && to.is_reached ? obstacle::read_only : obstacle::no_peer_access;
}

} // namespace

failure plan_job(ferry_instance &instance, bool takes_batch_calls, const batch_plan *ways, batch_job &job) noexcept {
    if (!job.pieces.sort(job.ranges)) return no_memory;
    batch_site site = {.context_device = job.context_device,
                       .line_calls = batch_call_obstacle(has_line_batches(instance.cu), takes_batch_calls),
                       .box_calls = batch_call_obstacle(has_box_batches(instance.cu), takes_batch_calls),
                       .wishes = wishes_of(instance.copy_flags),
                       .profile = instance.profiles.of(job.context_device)};
    if (ways)
        std::copy_n(ways, piece_groups, job.plans);
    else
        plan_with_kernels(instance, job.context.wanted, site,
                          [&]() noexcept { return plan_pieces(site, job.pieces, job.plans); });
    for (int group = 0; group < piece_groups; ++group)
        if (const obstacle why = job.plans[group].refused; why != obstacle::none)
            return on_side(refuse_route(why == obstacle::not_asked ? why_apart(job, *job.pieces.begin(group)) : why),
                           FERRY_SIDE_OPTIONS); // whose flags they are
    job.lines.clear();
    for (int group = 0; group < piece_groups; ++group)
        if (job.plans[group].way == batch_way::batch_call)
            if (!job.lines.append(job.pieces.begin(group), job.pieces.facts(group).count)) return no_memory;
    if (job.arrays.size())
        if (failure failed = look_up_views(instance, job)) return failed;
    plan_with_kernels(instance, job.context.wanted, site,
                      [&]() noexcept { return plan_boxes(site, job.boxes, job.box_launches); });
    find_surfaces(instance, job);
    return plan_box_calls(instance, takes_batch_calls, job);
}

} // namespace ferry
