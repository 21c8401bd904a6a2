#include "plan/fill_plan.h"

#include <algorithm>

#include "plan/predict.h"

namespace ferry {

namespace {

// On an H200 (CUDA 13.0; kernel-speed, fills of 256 MiB at a pitch of twice the row width), the driver fills rows of 4,
// 16 and 100 bytes at 6, 25 and 156 GB/s: 0.64 ns per row of any width. A kernel fills them at 1016, 948 and 546 GB/s.
// For rows of 4 KiB, both are equally fast. Units: nanoseconds and bytes per nanosecond.
constexpr double driver_fill_row_ns = 0.64;
constexpr double max_kernel_rate = 546; // the lowest measured rate
// A smaller gain does not justify occupying SMs. A choice, not a measurement.
constexpr double min_gain_ns = 2000;

// The location of the memory relative to the context's device.
copy_direction direction_of(const fill_shape &shape, const fill_facts &facts) noexcept {
    if (is_host(shape.destination.kind)) return copy_direction::device_to_host;
    return is_elsewhere(shape.destination, facts.context_device) ? copy_direction::between_devices
                                                                 : copy_direction::within_device;
}

double bytes_of(const fill_shape &shape) noexcept {
    return static_cast<double>(shape.width) * static_cast<double>(shape.height) * static_cast<double>(shape.depth);
}

unsigned blocks_of_kernel(const fill_shape &shape, const fill_facts &facts) noexcept {
    constexpr unsigned access = 16; // within a row, for any pattern
    const copy_direction direction = direction_of(shape, facts);
    return blocks_for((*facts.profile)[direction], direction, bytes_of(shape), access, facts.preferences.max_blocks);
}

// A fill writes rows at least as fast as a copy that scatters them.
double kernel_fill_rate(const fill_shape &shape, const fill_facts &facts) noexcept {
    const shape_end &end = shape.destination;
    const std::uint64_t common = end.span.first | end.row_pitch | shape.width | 16;
    const row_profile rows = {.width = shape.width,
                              .count = shape.height * shape.depth,
                              .destination_pitch = end.row_pitch,
                              .side = gaps::destination,
                              .access = static_cast<unsigned>(common & -common)};
    const copy_direction direction = copy_direction::within_device;
    const double row_ns = kernel_row_ns((*facts.profile)[direction], direction, rows, blocks_of_kernel(shape, facts));
    return std::min(static_cast<double>(shape.width) / row_ns, max_kernel_rate);
}

bool is_much_faster_by_kernel(const fill_shape &shape, const fill_facts &facts) noexcept {
    const bool is_near = shape.destination.kind == memory_kind::device &&
                         direction_of(shape, facts) == copy_direction::within_device &&
                         facts.reach != obstacle::managed;
    if (!is_near || shape.height == 1 || shape.depth > 1) return false;
    const auto rows = static_cast<double>(shape.height), width = static_cast<double>(shape.width);
    return rows * (driver_fill_row_ns - width / kernel_fill_rate(shape, facts)) > min_gain_ns;
}

obstacle kernel_obstacle(const fill_facts &facts) noexcept {
    if (facts.preferences.no_kernels || facts.preferences.forced == route_kind::driver) return obstacle::forbidden;
    if (facts.kernels != obstacle::none) return facts.kernels;
    return facts.reach == obstacle::managed ? obstacle::none : facts.reach;
}

} // namespace

fill_plan plan_fill(const fill_shape &shape, const fill_facts &facts) noexcept {
    const bool driver_serves = driver_has_call_for(shape);
    const bool is_forced = facts.preferences.forced == route_kind::kernel;
    const obstacle why_not = kernel_obstacle(facts);
    if (why_not == obstacle::none) {
        const std::uint8_t reason = is_forced                     ? FERRY_REASON_FORCED
                                    : facts.preferences.is_urgent ? FERRY_REASON_URGENT
                                    : !driver_serves              ? FERRY_REASON_ONLY
                                                                  : FERRY_REASON_PREDICTED;
        if (reason == FERRY_REASON_PREDICTED && !is_much_faster_by_kernel(shape, facts)) return {.reason = reason};
        return {.route = route_kind::kernel,
                .blocks = static_cast<std::uint16_t>(blocks_of_kernel(shape, facts)),
                .reason = reason};
    }
    if (driver_serves && !is_forced) {
        const bool is_driver_forced = facts.preferences.forced == route_kind::driver;
        return {.reason = is_driver_forced ? std::uint8_t{FERRY_REASON_FORCED} : std::uint8_t{FERRY_REASON_ONLY},
                .why_no_kernel = why_not};
    }
    return {.route = route_kind::none, .refused = why_not, .why_no_kernel = why_not};
}

error refuse_device(const shape_end &end, int context_device) noexcept {
    return refuse_signed(FERRY_ERROR_DEVICE, FERRY_SIDE_DESTINATION, FERRY_FIELD_DEVICE, numbers::equal, context_device,
                         end.device);
}

error refusal_of(const fill_shape &shape, const fill_facts &facts, const fill_plan &plan) noexcept {
    const shape_end &end = shape.destination;
    if (facts.preferences.forced == route_kind::kernel || is_wait(plan.refused)) return refuse_route(plan.refused);
    if (plan.refused == obstacle::pageable && is_host(end.kind))
        return refuse_value(FERRY_ERROR_PAGEABLE, FERRY_SIDE_DESTINATION, FERRY_FIELD_ADDRESS, end.span.first);
    if (plan.refused == obstacle::no_peer_access && is_elsewhere(end, facts.context_device))
        return refuse_device(end, facts.context_device);
    if (shape.unit > max_unit_of_driver)
        return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_PATTERN_SIZE, numbers::at_most,
                      max_unit_of_driver, shape.unit);
    return refuse(FERRY_ERROR_UNSUPPORTED, FERRY_SIDE_EXTENT, FERRY_FIELD_DEPTH, numbers::at_most, 1, shape.depth);
}

} // namespace ferry
