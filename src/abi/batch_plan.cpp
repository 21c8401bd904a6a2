// The second part of a batch: its pieces and boxes go by groups, each the way that is predicted to be fastest.
#include <algorithm>
#include <iterator>

#include "abi/batch_job.h"
#include "abi/instance.h"

namespace ferry {

namespace {

constexpr copy_direction direction_of(int group) noexcept {
    switch (static_cast<piece_group>(group)) {
    case piece_group::up:
        return copy_direction::host_to_device;
    case piece_group::down:
        return copy_direction::device_to_host;
    case piece_group::between:
        return copy_direction::between_devices;
    default:
        return copy_direction::within_device;
    }
}

obstacle batch_call_obstacle(bool has_entry_point, bool is_taken) noexcept {
    return !has_entry_point ? obstacle::no_entry_point : is_taken ? obstacle::none : obstacle::default_stream;
}

// True where some group goes by kernels.
bool plan_groups(const ferry_instance &instance, bool takes_batch_calls, bool has_kernels, batch_job &job) noexcept {
    bool takes_kernels = false;
    for (int group = 0; group < piece_groups; ++group) {
        const group_facts &of = job.pieces.facts(group);
        batch_plan &plan = job.plans[group];
        plan = {};
        if (of.count == 0) continue;
        const copy_wishes wishes = wishes_of(instance.copy_flags);
        if (group == static_cast<int>(piece_group::apart)) {
            if (wishes.forced == route_kind::kernel) plan.refused = obstacle::pageable; // or out of reach
            continue;
        }
        const bool is_managed = group == static_cast<int>(piece_group::managed);
        const std::uint64_t bits = of.misalignment | 16;
        plan = plan_batch({.direction = direction_of(group),
                           .count = of.count,
                           .bytes = of.bytes,
                           .largest = of.largest,
                           .access = static_cast<unsigned>(bits & -bits),
                           .kernels = is_managed    ? obstacle::managed
                                      : has_kernels ? obstacle::none
                                                    : obstacle::not_loaded,
                           .batch_call = batch_call_obstacle(has_line_batches(instance.cu), takes_batch_calls),
                           .wishes = wishes,
                           .profile = instance.profiles.of(job.context_device)});
        takes_kernels |= plan.way == batch_way::kernel;
    }
    return takes_kernels;
}

bool may_be_for_kernels(const batch_box &box) noexcept {
    return box.way != box_way::own && box.group != piece_group::apart && box.group != piece_group::managed;
}

// A box that a kernel copies faster by itself goes with the others that do; of the rest all of a group or none.
void plan_boxes_for_kernels(const ferry_instance &instance, bool takes_batch_calls, bool has_kernels,
                            batch_job &job) noexcept {
    plan_facts facts = {.context_device = job.context_device, .form = copy_form::asynchronous};
    facts.kernels = has_kernels ? obstacle::none : obstacle::not_loaded;
    facts.source_reach = facts.destination_reach = obstacle::none;
    facts.wishes = wishes_of(instance.copy_flags);
    facts.profile = instance.profiles.of(job.context_device);
    batch_facts rest[piece_groups];
    std::uint64_t misalignment[piece_groups] = {};
    for (batch_box &box : job.boxes) {
        if (box.way == box_way::own) continue;
        box.way = box_way::call;
        if (!may_be_for_kernels(box)) continue;
        const copy_plan alone = plan_copy(box.shape, facts);
        if (alone.route == route_kind::kernel) {
            box.way = box_way::kernel;
            box.blocks = alone.blocks;
            continue;
        }
        const auto group = static_cast<int>(box.group);
        const std::uint64_t bytes = box.shape.width * box.shape.height * box.shape.depth;
        ++rest[group].count;
        rest[group].bytes += bytes;
        rest[group].largest = std::max(rest[group].largest, bytes);
        misalignment[group] |= (box.shape.source.span.first ^ box.shape.destination.span.first) |
                               box.shape.source.row_pitch | box.shape.destination.row_pitch;
    }
    for (int group = 0; group < piece_groups; ++group) {
        if (rest[group].count == 0) continue;
        const std::uint64_t bits = misalignment[group] | 16;
        rest[group].direction = direction_of(group);
        rest[group].are_boxes = true;
        rest[group].access = static_cast<unsigned>(bits & -bits);
        rest[group].kernels = facts.kernels;
        rest[group].batch_call = batch_call_obstacle(has_box_batches(instance.cu), takes_batch_calls);
        rest[group].wishes = facts.wishes;
        rest[group].profile = facts.profile;
        const batch_plan plan = plan_batch(rest[group]);
        if (plan.way != batch_way::kernel) continue;
        for (batch_box &box : job.boxes)
            if (static_cast<int>(box.group) == group && box.way == box_way::call) {
                box.way = box_way::kernel;
                box.blocks = plan.blocks;
            }
    }
}

bool has_kernel_boxes(const batch_job &job) noexcept {
    return std::any_of(job.boxes.begin(), job.boxes.end(),
                       [](const batch_box &box) { return box.way == box_way::kernel; });
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

} // namespace

failure plan_job(ferry_instance &instance, bool takes_batch_calls, const batch_plan *ways, batch_job &job) noexcept {
    if (!job.pieces.sort(job.ranges)) return no_memory;
    if (ways)
        std::copy_n(ways, piece_groups, job.plans);
    else if (plan_groups(instance, takes_batch_calls, instance.kernels.may_serve(), job) &&
             instance.kernels.load_into(job.context.wanted))
        plan_groups(instance, takes_batch_calls, false, job);
    for (const batch_plan &plan : job.plans)
        if (plan.refused != obstacle::none) return refuse_route(plan.refused);
    job.lines.clear();
    for (int group = 0; group < piece_groups; ++group)
        if (job.plans[group].way == batch_way::batch_call)
            if (!job.lines.append(job.pieces.begin(group), job.pieces.facts(group).count)) return no_memory;
    plan_boxes_for_kernels(instance, takes_batch_calls, instance.kernels.may_serve(), job);
    if (has_kernel_boxes(job) && instance.kernels.load_into(job.context.wanted))
        plan_boxes_for_kernels(instance, takes_batch_calls, false, job);
    return plan_box_calls(instance, takes_batch_calls, job);
}

bool takes_kernels(const batch_job &job) noexcept {
    const auto by_own_kernel = [](const batch_box &box) {
        return box.way == box_way::own && box.plan.route == route_kind::kernel;
    };
    return has_kernel_boxes(job) || std::any_of(job.boxes.begin(), job.boxes.end(), by_own_kernel) ||
           std::any_of(std::begin(job.plans), std::end(job.plans),
                       [](const batch_plan &plan) { return plan.way == batch_way::kernel; });
}

} // namespace ferry
