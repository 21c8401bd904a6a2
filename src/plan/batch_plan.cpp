#include "plan/batch_plan.h"

#include <algorithm>
#include <bit>

#include "plan/predict.h"

namespace ferry {

namespace {

obstacle kernel_obstacle(const batch_facts &facts) noexcept {
    if (facts.preferences.no_kernels) return obstacle::forbidden;
    return facts.kernels;
}

struct batch_prediction {
    double ns[batch_routes]; // valid only for routes that can serve
    std::uint16_t blocks;
};

[[gnu::cold]] batch_prediction predict(const batch_facts &facts) noexcept {
    const device_profile &profile = *facts.profile;
    const direction_profile &of_direction = profile[facts.direction];
    const auto count = static_cast<double>(facts.count), bytes = static_cast<double>(facts.bytes);
    double by_driver = of_direction.driver_line_rate;
    if (facts.are_of_arrays) by_driver = std::min<double>(by_driver, profile.array_driver_rate);
    const double driver_ns = bytes * 1000 / by_driver;

    // One large piece among small pieces reaches its usual rate; the small pieces reach the rate of their average size.
    const unsigned blocks = blocks_for(of_direction, facts.direction, bytes, facts.access, facts.preferences.max_blocks,
                                       facts.are_of_arrays);
    const std::uint64_t largest = std::min(facts.largest, facts.bytes);
    const std::uint64_t others = facts.count > 1 ? (facts.bytes - largest) / (facts.count - 1) : 0;
    const unsigned access = std::bit_floor(std::clamp(facts.access, 1u, 16u));
    const auto kernel_ns = [&](std::uint64_t width, double size) noexcept {
        row_profile rows;
        rows.width = std::max<std::uint64_t>(width, 1);
        rows.source_pitch = rows.destination_pitch = UINT64_MAX; // each piece is at a different place
        rows.access = access;
        return size / static_cast<double>(rows.width) * kernel_row_ns(of_direction, facts.direction, rows, blocks);
    };
    double by_kernel_ns = kernel_ns(largest, static_cast<double>(largest)) +
                          kernel_ns(others, static_cast<double>(facts.bytes - largest));
    if (facts.are_of_arrays) by_kernel_ns = std::max(by_kernel_ns, bytes * 1000 / array_kernel_rate(profile, access));
    // array_call_ns was measured within the device. Over a link, a call for an array is assumed to cost no more than a
    // call for other memory.
    const bool is_array_call = facts.are_of_arrays && facts.direction == copy_direction::within_device;

    batch_prediction predicted = {};
    predicted.ns[static_cast<int>(batch_route::calls)] =
        of_direction.driver_fixed_ns + (count - 1) * (is_array_call ? profile.array_call_ns : of_direction.call_ns) +
        driver_ns;
    predicted.ns[static_cast<int>(batch_route::batch_call)] =
        profile.batch_fixed_ns + count * (facts.are_boxes ? of_direction.batch_box_ns : of_direction.batch_piece_ns) +
        driver_ns;
    predicted.ns[static_cast<int>(batch_route::kernel)] =
        of_direction.kernel_fixed_ns +
        count * (facts.are_of_arrays ? profile.array_kernel_box_ns : of_direction.kernel_piece_ns) + by_kernel_ns;
    predicted.blocks = static_cast<std::uint16_t>(blocks);
    return predicted;
}

} // namespace

batch_plan plan_batch(const batch_facts &facts) noexcept {
    const copy_preferences &preferences = facts.preferences;
    const bool is_kernel_forced = preferences.forced == route_kind::kernel;
    const obstacle no_kernel = kernel_obstacle(facts);
    if (is_kernel_forced && no_kernel != obstacle::none) return {.refused = no_kernel};
    if (preferences.may_be_refused() && !is_kernel_forced) return {.refused = obstacle::no_route};
    const bool kernel_serves = no_kernel == obstacle::none && preferences.forced != route_kind::driver;
    const bool batch_call_serves = facts.batch_call == obstacle::none;
    const bool is_kernel_wanted = is_kernel_forced || (preferences.is_urgent && kernel_serves);
    if (!facts.profile) {
        constexpr std::uint16_t few = 8;
        const std::uint16_t blocks = preferences.max_blocks ? std::min(preferences.max_blocks, few) : few;
        if (is_kernel_wanted) return {.route = batch_route::kernel, .blocks = blocks};
        return {.route = batch_call_serves && facts.count > 1 ? batch_route::batch_call : batch_route::calls};
    }
    const batch_prediction predicted = predict(facts);
    const auto ns = [&](batch_route route) noexcept { return predicted.ns[static_cast<int>(route)]; };
    const batch_route by_driver = batch_call_serves && ns(batch_route::batch_call) < ns(batch_route::calls)
                                      ? batch_route::batch_call
                                      : batch_route::calls;
    const bool kernel_wins = kernel_serves && ns(batch_route::kernel) * kernel_margin < ns(by_driver);
    const batch_route route = is_kernel_wanted || kernel_wins ? batch_route::kernel : by_driver;
    return {.route = route,
            .blocks = route == batch_route::kernel ? predicted.blocks : std::uint16_t{0},
            .predicted_ns = static_cast<std::uint64_t>(ns(route))};
}

batch_forecasts predict_batch(const batch_facts &facts) noexcept {
    batch_forecasts forecasts = {};
    const batch_prediction predicted = facts.profile ? predict(facts) : batch_prediction{};
    const obstacle why_not[batch_routes] = {obstacle::none, facts.batch_call, kernel_obstacle(facts)};
    for (int route = 0; route < batch_routes; ++route) {
        forecasts.routes[route].why_not = why_not[route];
        if (why_not[route] == obstacle::none)
            forecasts.routes[route].predicted_ns = static_cast<std::uint64_t>(predicted.ns[route]);
    }
    batch_forecast &kernel = forecasts.routes[static_cast<int>(batch_route::kernel)];
    if (kernel.why_not == obstacle::none) kernel.blocks = predicted.blocks;
    return forecasts;
}

// ---- Groups

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

bool may_be_for_kernels(const batch_box &box) noexcept {
    return box.route != batch_route::own && box.group != piece_group::apart && box.group != piece_group::managed &&
           !is_pageable(box.group);
}

// Returns the numbers that the word size of a kernel must divide, OR-ed together.
std::uint64_t words_of(const shape &shape) noexcept {
    const shape_end &from = shape.source, &to = shape.destination;
    const std::uint64_t ends = from.array ? from.x | shape.width | to.span.first : from.span.first ^ to.span.first;
    return ends | from.row_pitch | to.row_pitch;
}
unsigned access_of(std::uint64_t words) noexcept { return 1u << std::countr_zero(words | 16); }

// Whether two boxes with words of the same width get the same individual plan: the boxes of a batch often have the same
// size.
bool are_alike(const batch_box &one, const batch_box &other) noexcept {
    constexpr std::uint64_t sector = 32; // bytes; a larger alignment of memory makes no difference
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

// Plans boxes individually, and caches the last result for each word width.
class boxes_alone {
public:
    explicit boxes_alone(function_ref<bool(const shape &)> takes_kernel) noexcept : takes_kernel_(takes_kernel) {}

    bool take_kernel(const batch_box &box) noexcept {
        known &last = last_[std::countr_zero(access_of(words_of(box.shape)))];
        if (!last.box || !are_alike(box, *last.box)) last = {&box, takes_kernel_(box.shape)};
        return last.takes_kernel;
    }

private:
    struct known {
        const batch_box *box = nullptr;
        bool takes_kernel = false;
    };
    function_ref<bool(const shape &)> takes_kernel_;
    known last_[access_classes];
};

// The totals of the boxes of one source and group.
struct box_sum {
    std::uint64_t count = 0, bytes = 0, largest = 0;
    std::uint64_t words = 0; // words_of all of them

    void add(const box_sum &more) noexcept {
        count += more.count;
        bytes += more.bytes;
        largest = std::max(largest, more.largest);
        words |= more.words;
    }
    void add(const batch_box &box) noexcept { add({1, box.bytes(), box.bytes(), words_of(box.shape)}); }
};

} // namespace

bool plan_pieces(const batch_site &site, const grouped_pieces &pieces, batch_plan (&plans)[piece_groups]) noexcept {
    bool takes_kernels = false;
    for (int group = 0; group < piece_groups; ++group) {
        const group_facts &of = pieces.facts(group);
        batch_plan &plan = plans[group];
        plan = {};
        if (of.count == 0) continue;
        const bool demands_kernel = site.preferences.forced == route_kind::kernel;
        if (group == static_cast<int>(piece_group::apart) || is_pageable(static_cast<piece_group>(group))) {
            if (demands_kernel) plan.refused = obstacle::not_known; // the caller knows the reason
            continue;
        }
        const bool is_managed = group == static_cast<int>(piece_group::managed);
        const std::uint64_t bits = of.misalignment | 16;
        plan = plan_batch({.direction = direction_of(group),
                           .count = of.count,
                           .bytes = of.bytes,
                           .largest = of.largest,
                           .access = static_cast<unsigned>(bits & -bits),
                           .kernels = is_managed && !demands_kernel ? obstacle::managed : site.kernels,
                           .batch_call = site.line_calls,
                           .preferences = site.preferences,
                           .profile = site.profile});
        takes_kernels |= plan.route == batch_route::kernel;
    }
    return takes_kernels;
}

bool plan_boxes(const batch_site &site, growing<batch_box> &boxes, box_launch (&launches)[box_sources][piece_groups],
                function_ref<bool(const shape &)> takes_kernel_alone) noexcept {
    box_sum taken[box_sources][piece_groups], left[box_sources][piece_groups];
    boxes_alone alone(takes_kernel_alone);
    for (batch_box &box : boxes) {
        if (box.route == batch_route::own) continue;
        box.route = batch_route::calls;
        if (!may_be_for_kernels(box)) continue;
        const bool takes_kernel = alone.take_kernel(box);
        if (takes_kernel) box.route = batch_route::kernel;
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
                .kernels = site.kernels,
                .batch_call = site.box_calls,
                .preferences = site.preferences,
                .profile = site.profile};
    };
    bool takes_kernels = false;
    for (int source = 0; source < box_sources; ++source)
        for (int group = 0; group < piece_groups; ++group) {
            box_sum &all = taken[source][group];
            const box_sum &rest = left[source][group];
            if (rest.count && plan_batch(facts_of(rest, source, group)).route == batch_route::kernel) {
                all.add(rest);
                for (batch_box &box : boxes)
                    if (box.route == batch_route::calls && box.is_of(source, group)) box.route = batch_route::kernel;
            }
            launches[source][group] = {all.count, all.bytes, 0, 0};
            if (all.count == 0) continue;
            takes_kernels = true;
            const batch_forecast expected = predict_batch(facts_of(all, source, group))[batch_route::kernel];
            launches[source][group].blocks = expected.blocks;
            launches[source][group].predicted_ns = expected.predicted_ns;
        }
    return takes_kernels;
}

} // namespace ferry
