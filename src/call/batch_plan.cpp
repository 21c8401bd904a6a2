// The second part of a batch: its pieces and boxes go by groups, each the way that is predicted to be fastest.
#include <algorithm>
#include <bit>
#include <iterator>

#include "call/batch_job.h"
#include "call/instance.h"

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

// What the size of the words must divide that kernels copy a box in, or-ed together.
std::uint64_t words_of(const shape &shape) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    const std::uint64_t ends = from.array ? from.x | shape.width | to.span.first : from.span.first ^ to.span.first;
    return ends | from.row_pitch | to.row_pitch;
}
unsigned access_of(std::uint64_t words) noexcept { return 1u << std::countr_zero(words | 16); }

// Whether one by itself goes as the other does, which has as wide words: those of a batch often are of one size.
bool are_alike(const batch_box &one, const batch_box &other) noexcept {
    constexpr std::uint64_t sector = 32; // what the alignment of memory counts up to
    const shape &shape = one.shape, &another = other.shape;
    const auto differ = [&](const shape_end &one, const shape_end &other) noexcept {
        const std::uint64_t places = shape.source.array ? 0 : (one.span.first ^ other.span.first) % sector;
        return places | (one.row_pitch ^ other.row_pitch) | (one.slice_height ^ other.slice_height);
    };
    const std::uint64_t sizes =
        (shape.width ^ another.width) | (shape.height ^ another.height) | (shape.depth ^ another.depth);
    return one.group == other.group && one.source() == other.source() &&
           !(sizes | differ(shape.source, another.source) | differ(shape.destination, another.destination));
}

// Boxes planned by themselves, and what became of the last ones with words of each width.
class boxes_alone {
public:
    explicit boxes_alone(const plan_facts &facts) noexcept : facts_(facts) {}

    bool take_kernel(const batch_box &box) noexcept {
        known &last = last_[std::countr_zero(access_of(words_of(box.shape)))];
        if (!last.box || !are_alike(box, *last.box))
            last = {&box, plan_copy(box.shape, facts_).route == route_kind::kernel};
        return last.takes_kernel;
    }

private:
    struct known {
        const batch_box *box = nullptr;
        bool takes_kernel = false;
    };
    const plan_facts &facts_;
    known last_[access_classes];
};

// Boxes of one source and group together.
struct box_sum {
    std::uint64_t count = 0, bytes = 0, largest = 0;
    std::uint64_t words = 0; // words_of them

    void add(const box_sum &more) noexcept {
        count += more.count;
        bytes += more.bytes;
        largest = std::max(largest, more.largest);
        words |= more.words;
    }
    void add(const batch_box &box) noexcept { add({1, box.bytes(), box.bytes(), words_of(box.shape)}); }
};

// A box that a kernel copies faster by itself goes with the others that do; of the rest all of a source and group or none.
void plan_boxes_for_kernels(const ferry_instance &instance, bool takes_batch_calls, bool has_kernels,
                            batch_job &job) noexcept {
    plan_facts facts = {.context_device = job.context_device, .form = copy_form::asynchronous};
    facts.kernels = has_kernels ? obstacle::none : obstacle::not_loaded;
    facts.source_reach = facts.destination_reach = obstacle::none;
    facts.wishes = wishes_of(instance.copy_flags);
    facts.profile = instance.profiles.of(job.context_device);
    box_sum taken[box_sources][piece_groups], left[box_sources][piece_groups];
    boxes_alone alone(facts);
    for (batch_box &box : job.boxes) {
        if (box.way == box_way::own) continue;
        box.way = box_way::call;
        if (!may_be_for_kernels(box)) continue;
        const bool takes_kernel = alone.take_kernel(box);
        if (takes_kernel) box.way = box_way::kernel;
        (takes_kernel ? taken : left)[box.source()][static_cast<int>(box.group)].add(box);
    }
    const auto facts_of = [&](const box_sum &sum, int source, int group) noexcept -> batch_facts {
        return {.direction = direction_of(group),
                .are_boxes = true,
                .are_of_arrays = source == from_array,
                .count = sum.count,
                .bytes = sum.bytes,
                .largest = sum.largest,
                .access = access_of(sum.words),
                .kernels = facts.kernels,
                .batch_call = batch_call_obstacle(has_box_batches(instance.cu), takes_batch_calls),
                .wishes = facts.wishes,
                .profile = facts.profile};
    };
    for (int source = 0; source < box_sources; ++source)
        for (int group = 0; group < piece_groups; ++group) {
            box_sum &all = taken[source][group];
            const box_sum &rest = left[source][group];
            if (rest.count && plan_batch(facts_of(rest, source, group)).way == batch_way::kernel) {
                all.add(rest);
                for (batch_box &box : job.boxes)
                    if (box.way == box_way::call && box.is_of(source, group)) box.way = box_way::kernel;
            }
            job.box_launches[source][group] = {all.count, all.bytes, 0};
            if (all.count)
                job.box_launches[source][group].blocks =
                    predict_batch(facts_of(all, source, group))[batch_way::kernel].blocks;
        }
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
    if (job.arrays.size())
        if (failure failed = look_up_views(instance, job)) return failed;
    plan_boxes_for_kernels(instance, takes_batch_calls, instance.kernels.may_serve(), job);
    if (has_kernel_boxes(job) && instance.kernels.load_into(job.context.wanted))
        plan_boxes_for_kernels(instance, takes_batch_calls, false, job);
    find_surfaces(instance, job);
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
