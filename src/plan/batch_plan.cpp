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

batch_prediction predict(const batch_facts &facts) noexcept {
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
    if (preferences.forced != route_kind::none && preferences.forced != route_kind::driver && !is_kernel_forced)
        return {.refused = obstacle::no_route};
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

} // namespace ferry
