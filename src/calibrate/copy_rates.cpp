#include "calibrate/copy_rates.h"

#include <algorithm>

#include "plan/plan.h"
#include "plan/predict.h"

namespace ferry {

namespace {

error measure_pageable(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    direction_profile &found = profile[direction];
    if (direction == copy_direction::within_device) {
        found.driver_pageable_rate = found.driver_line_rate; // neither end is host memory
        return {};
    }
    copy_ends ends = work.ends_of(direction);
    const bool to_device = direction == copy_direction::host_to_device;
    (to_device ? ends.source : ends.destination) = reinterpret_cast<std::uintptr_t>(work.pageable);
    (to_device ? ends.source_kind : ends.destination_kind) = memory_kind::pageable;
    return work.watch.rate_of_run(
        64 * KiB, std::min(8 * MiB, work.device_bytes), found.driver_fixed_ns,
        [&](std::uint64_t bytes) noexcept { return work.copy_by_driver(shape_of(ends, bytes, 1)); },
        found.driver_pageable_rate);
}

} // namespace

error measure_driver_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    direction_profile &found = profile[direction];
    const copy_ends line = work.ends_of(direction);
    const std::uint64_t room = work.room_of(direction);
    const auto line_of = [&](std::uint64_t bytes) noexcept { return shape_of(line, bytes, 1); };

    std::uint64_t ns = 0;
    constexpr int small_runs = 9;
    constexpr std::uint64_t small = 4;
    if (error failed = work.watch.median_of(
            small_runs, [&]() noexcept { return work.copy_by_driver(line_of(small)); }, ns))
        return failed;
    found.driver_fixed_ns = to_fact(ns);
    if (error failed = work.watch.rate_of_run(
            64 * KiB, room, found.driver_fixed_ns,
            [&](std::uint64_t bytes) noexcept { return work.copy_by_driver(line_of(bytes)); }, found.driver_line_rate))
        return failed;
    return measure_pageable(work, direction, profile);
}

error measure_kernel_lines(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    direction_profile &found = profile[direction];
    const std::uint64_t room = work.room_of(direction);
    const auto rate_with = [&](unsigned blocks, std::uint64_t offset, std::uint32_t &rate) noexcept {
        copy_ends line = work.ends_of(direction);
        line.source += offset;
        return work.watch.rate_of_run(
            64 * KiB, room - 64 * KiB, found.kernel_fixed_ns,
            [&](std::uint64_t bytes) noexcept { return work.copy_by_kernel(shape_of(line, bytes, 1), blocks); }, rate);
    };
    std::uint64_t ns = 0;
    if (error failed = work.watch.median_of(
            9, [&]() noexcept { return work.copy_by_kernel(shape_of(work.ends_of(direction), 4, 1), 1); }, ns))
        return failed;
    found.kernel_fixed_ns = to_fact(ns);
    // Selects the smallest number of blocks that comes close to the best rate. Links need few blocks; device memory
    // needs many blocks on each SM.
    const bool is_within = direction == copy_direction::within_device;
    const unsigned first = is_within ? static_cast<unsigned>(std::max(work.options.multiprocessors, 1)) : 1;
    constexpr int steps = 6;
    std::uint32_t rates[steps];
    for (int step = 0; step < steps; ++step)
        if (error failed = rate_with(std::min(first << step, 0xffffu), 0, rates[step])) return failed;
    const std::uint32_t best = *std::max_element(rates, rates + steps);
    int enough = 0;
    while (rates[enough] < best / 100 * 97)
        ++enough;
    found.kernel_blocks = std::min(first << enough, 0xffffu);
    found.kernel_line_rate = rates[enough];
    found.kernel_block_rate = rates[0];
    if (is_within)
        if (error failed = rate_with(1, 0, found.kernel_block_rate)) return failed;
    // Beyond an access of this size, the ends share no alignment.
    constexpr unsigned widest = 1 << (access_classes - 1);
    for (int access = 0; access < access_classes; ++access) {
        const unsigned size = 1u << access;
        const unsigned blocks = blocks_for(found, direction, static_cast<double>(room), size, 0);
        if (error failed = rate_with(blocks, size % widest, found.kernel_access_rates[access])) return failed;
    }
    return {};
}

error measure_rows(calibration_workspace &work, copy_direction direction, device_profile &profile) noexcept {
    direction_profile &found = profile[direction];
    for (int side = 0; side < gap_sides; ++side) {
        copy_ends ends = work.ends_of(direction);
        ends.source_gaps = side != static_cast<int>(gaps::destination);
        ends.destination_gaps = side != static_cast<int>(gaps::source);
        for (int at = 0; at < width_classes; ++at) {
            const std::uint64_t width = 1ull << at, unit = 2 * width; // at least two rows
            const std::uint64_t max_bytes = work.room_of(direction) / 2;
            // Within a device, the driver copies a small number of rows by a different method.
            const std::uint64_t many = direction == copy_direction::within_device ? many_rows * width : 0;
            const auto by_driver = [&](std::uint64_t bytes) noexcept {
                return work.copy_by_driver(shape_of(ends, width, bytes / width));
            };
            if (error failed = work.watch.rate_of_run(unit, max_bytes, found.driver_fixed_ns, by_driver,
                                                      found.driver_rates[side][at], many))
                return failed;
            if (!work.has_kernels) continue;
            const auto by_kernel = [&](std::uint64_t bytes) noexcept {
                const auto access = static_cast<unsigned>(std::min<std::uint64_t>(width, 16));
                const unsigned blocks = blocks_for(found, direction, static_cast<double>(bytes), access, 0);
                return work.copy_by_kernel(shape_of(ends, width, bytes / width), blocks);
            };
            if (error failed = work.watch.rate_of_run(unit, max_bytes, found.kernel_fixed_ns, by_kernel,
                                                      found.kernel_rates[side][at]))
                return failed;
        }
    }
    return {};
}

error measure_many_rows(calibration_workspace &work, device_profile &profile) noexcept {
    copy_ends ends = work.ends_of(copy_direction::within_device);
    ends.source_gaps = true;
    constexpr std::uint64_t width = 4;
    const auto &within = profile[copy_direction::within_device];
    std::uint64_t ns = 0;
    if (error failed = work.watch.median_of(
            9, [&]() noexcept { return work.copy_by_driver(shape_of(ends, width, many_rows)); }, ns))
        return failed;
    const double rate = rate_of(within.driver_rates[static_cast<int>(gaps::source)], width, 1);
    const auto of_rows = static_cast<std::uint64_t>(many_rows * width * 1000 / rate);
    profile.many_rows_fixed_ns = to_fact(std::max<std::uint64_t>(ns - std::min(ns, of_rows), within.driver_fixed_ns));
    return {};
}

} // namespace ferry
