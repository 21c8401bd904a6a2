#include "calibrate/array_rates.h"

#include <algorithm>

#include "exec/kernel_launch.h"
#include "plan/kernel_arrays.h"
#include "plan/plan.h"
#include "plan/predict.h"

namespace ferry {

namespace {

// Measures small boxes, at most as many as fit in the parameters of one launch.
constexpr std::uint64_t box_side = 16, box_count = 32;
static_assert(box_count <= gpu::max_array_boxes_in_parameters);
template <class Copy>
error measure_boxes(calibration_workspace &work, std::uint64_t fixed_ns, std::uint32_t &box_ns,
                    const Copy &copy_boxes) noexcept {
    std::uint64_t ns = 0;
    if (error failed = work.watch.median_of(
            5, [&]() noexcept { return copy_boxes(box_count); }, ns))
        return failed;
    box_ns = to_fact((ns - std::min(ns, fixed_ns)) / (box_count - 1));
    return {};
}

// Returns box `i`, which is adjacent to the previous box at both ends.
kernel_array_box array_box(const calibration_workspace &work, std::uint64_t i, std::uint64_t side,
                           std::uint64_t depth) noexcept {
    const std::uint64_t width = side * array_element, size = width * side * depth;
    return {.destination = {work.device[0] + i * size, width, width * side},
            .surface = work.surface,
            .form = array_form_of(array_side, array_side, false),
            .x = i * width % (array_side * array_element),
            .y = 0,
            .z = 0,
            .width = width,
            .height = side,
            .depth = depth};
}

unsigned blocks_for_array(const direction_profile &within, std::uint64_t bytes) noexcept {
    constexpr unsigned max_access = 1 << (access_classes - 1);
    return blocks_for(within, copy_direction::within_device, static_cast<double>(bytes), max_access, 0, true);
}

// Copies all boxes in one launch.
error copy_boxes_by_kernel(calibration_workspace &work, const direction_profile &within, std::uint64_t count) noexcept {
    constexpr std::uint64_t size = box_side * box_side * box_side * array_element;
    gpu::array_box_parameters given;
    array_packer packer(given.boxes, gpu::max_array_boxes_in_parameters, cut_array_boxes(count, count * size));
    for (std::uint64_t i = 0; i < count; ++i)
        if (packer.add(array_box(work, i, box_side, box_side)) != pack_result::added)
            return {.status = FERRY_ERROR_UNSUPPORTED};
    return launch_arrays(work.cu, *work.options.kernels, packer, given, 0, blocks_for_array(within, count * size),
                         work.stream);
}

error measure_array_kernel(calibration_workspace &work, device_profile &profile, std::uint64_t max_bytes) noexcept {
    const direction_profile &within = profile[copy_direction::within_device];
    const std::uint64_t fixed_ns = within.kernel_fixed_ns;
    const auto copy_whole = [&](std::uint64_t bytes) noexcept {
        return launch_array(work.cu, *work.options.kernels, array_box(work, 0, array_side, bytes / array_slice),
                            blocks_for_array(within, bytes), work.stream);
    };
    if (error failed = work.watch.rate_of_run(array_slice, max_bytes, fixed_ns, copy_whole, profile.array_kernel_rate))
        return failed;
    return measure_boxes(work, fixed_ns, profile.array_kernel_box_ns,
                         [&](std::uint64_t count) noexcept { return copy_boxes_by_kernel(work, within, count); });
}

} // namespace

error measure_arrays(calibration_workspace &work, device_profile &profile) noexcept {
    const std::uint64_t fixed_ns = profile[copy_direction::within_device].driver_fixed_ns;
    const auto copy_box = [&](std::uint64_t x, std::uint64_t side, std::uint64_t depth) noexcept {
        shape box = shape_of({memory_kind::array, memory_kind::device, 0, work.device[0], false, false},
                             side * array_element, side);
        box.depth = depth;
        box.source.array = work.array;
        box.source.x = x * array_element;
        return work.copy_by_driver(box);
    };
    const std::uint64_t max_bytes = std::min(work.device_bytes, array_side * array_slice);
    if (error failed = work.watch.rate_of_run(
            array_slice, max_bytes, fixed_ns,
            [&](std::uint64_t bytes) noexcept { return copy_box(0, array_side, bytes / array_slice); },
            profile.array_driver_rate))
        return failed;
    const auto copy_boxes = [&](std::uint64_t count) noexcept -> error {
        for (std::uint64_t i = 0; i < count; ++i)
            if (error failed = copy_box(i * box_side % array_side, box_side, box_side)) return failed;
        return {};
    };
    if (error failed = measure_boxes(work, fixed_ns, profile.array_call_ns, copy_boxes)) return failed;
    return work.surface ? measure_array_kernel(work, profile, max_bytes) : ok;
}

} // namespace ferry
