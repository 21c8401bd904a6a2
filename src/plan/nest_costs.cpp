#include "plan/nest_costs.h"

#include <algorithm>
#include <bit>

#include "base/rounding.h"
#include "plan/kernel_nests.h"
#include "plan/predict.h"

namespace ferry {

namespace {

constexpr std::uint64_t widest_word = 16;

// A thread has half as many bytes in flight as a thread of other kernels, so a link needs twice as many blocks. Blocks of
// 512 B to 24 KiB reached 29 to 40 GB/s to the device with 4, and 50 to 51 with 8; from the device 27 to 33 with 2, and
// 52 with 4 (H200, driver 580, 2026-11-30).
constexpr unsigned blocks_over_link = 2;

// The bytes of a nest that are contiguous at an end, around each run.
std::uint64_t contiguous_at(const nest &of, bool at_source) noexcept {
    std::uint64_t bytes = of.run;
    for (bool grows = true; grows;) {
        grows = false;
        for (int i = 0; i < of.axes; ++i) {
            const nest_axis &axis = of.axis[i];
            const nest_indices &list = at_source ? axis.source_indices : axis.destination_indices;
            if (list.address || axis.count == 1) continue;
            if (magnitude(at_source ? axis.source_stride : axis.destination_stride) != bytes) continue;
            bytes *= axis.count;
            grows = true;
        }
    }
    return bytes;
}

// A nest can have 2^64 - 1 boxes.
std::uint64_t to_ns(double ns) noexcept { return static_cast<std::uint64_t>(std::min(ns, 1e18)); }

double driver_ns(const direction_profile &profile, copy_direction direction, const row_profile &rows,
                 std::uint64_t boxes) noexcept {
    const auto count = static_cast<double>(boxes);
    return profile.driver_fixed_ns + (count - 1) * profile.call_ns +
           count * static_cast<double>(rows.count) * driver_row_ns(profile, direction, rows);
}

} // namespace

unsigned nest_blocks(const nest_facts &facts, std::uint64_t bytes) noexcept {
    unsigned blocks = 8; // if the device was not measured
    if (facts.profile) {
        // An SM that is ahead takes the next of many blocks: transposes of 16384^2 elements of 4 B reached 1535 GB/s with
        // 8 blocks for each SM, and 1818 with 64 (H200, driver 580, 2026-11-30).
        constexpr unsigned blocks_per_sm = 64;
        const bool is_within = facts.direction == copy_direction::within_device;
        blocks =
            blocks_for((*facts.profile)[facts.direction], facts.direction, static_cast<double>(bytes), widest_word, 0) *
            (is_within ? blocks_per_sm : blocks_over_link);
    }
    const unsigned limit = facts.preferences.max_blocks;
    return limit ? std::min(limit, blocks) : blocks;
}

std::uint64_t predict_nest_kernel(const nest_facts &facts, const nest &of) noexcept {
    const direction_profile &profile = (*facts.profile)[facts.direction];
    const std::uint64_t at_source = contiguous_at(of, true), at_destination = contiguous_at(of, false);
    const std::uint64_t word = word_of(of);
    const auto bytes = static_cast<double>(of.bytes());
    // Tiles make accesses as long as the bytes that are contiguous at an end. Over a link, only the host's end counts.
    row_profile rows;
    rows.width = facts.direction == copy_direction::host_to_device   ? at_source
                 : facts.direction == copy_direction::device_to_host ? at_destination
                                                                     : std::min(at_source, at_destination);
    rows.count = 1;
    rows.source_pitch = rows.destination_pitch = 2 * rows.width;
    const bool transposes = of.run == word && rows.width >= widest_word; // in registers, with wide accesses
    rows.access = static_cast<unsigned>(transposes ? widest_word : word);
    const unsigned blocks = divide_up(nest_blocks(facts, of.bytes()), blocks_over_link);
    const double rows_ns =
        bytes / static_cast<double>(rows.width) * kernel_row_ns(profile, facts.direction, rows, blocks);
    // Shares of the rate of a contiguous copy within the device, by the log2 of the word's size: transposes of 16384^2
    // elements, and a cache whose runs have 16 bytes at one end (H200, driver 580, 2026-11-30).
    constexpr double shares[access_classes] = {0.88, 0.91, 0.88, 0.88, 0.86};
    const double share = facts.direction == copy_direction::within_device ? shares[std::countr_zero(word)] : 1;
    const double ns = std::max(bytes * 1000 / profile.kernel_line_rate / share, rows_ns);
    return to_ns(profile.kernel_fixed_ns + ns);
}

std::uint64_t predict_nest_boxes(const nest_facts &facts, const shape &box, std::uint64_t boxes) noexcept {
    // Over a host link, the driver copied boxes of several slices with rows of 256 B at 33 to 55 GB/s, depending on their
    // strides. Rows of 4 KiB reached 54 in all cases (H200, driver 580, 2026-11-30).
    constexpr std::uint64_t long_row = 4096;
    constexpr double much_slower = 1.6;
    const bool may_be_slow = facts.direction <= copy_direction::device_to_host && box.depth > 1 && box.width < long_row;
    const double ns = driver_ns((*facts.profile)[facts.direction], facts.direction, rows_of(box), boxes);
    return to_ns(may_be_slow ? ns * much_slower : ns);
}

bool is_nest_for_kernel(const nest_facts &facts, std::uint64_t kernel_ns, std::uint64_t boxes_ns,
                        std::uint64_t boxes) noexcept {
    if (facts.preferences.forced == route_kind::kernel || facts.preferences.is_urgent) return true;
    constexpr std::uint64_t few = 8; // if the device was not measured
    return facts.profile ? static_cast<double>(kernel_ns) * kernel_margin < static_cast<double>(boxes_ns) : boxes > few;
}

bool is_nest_packed(const packed_facts &facts) noexcept {
    static constexpr std::uint64_t endless = std::uint64_t{1} << 50; // more rows take days
    const auto rows_in = [](const nest &of) noexcept { return std::min(of.bytes() / of.run, endless); };
    const auto parts = static_cast<double>(facts.parts);
    const std::uint64_t rows = rows_in(*facts.of), outer_rows = std::min(rows_in(*facts.outer) * facts.parts, endless);
    if (!facts.pageable.profile) return outer_rows < rows / 4;
    const device_profile &profile = *facts.pageable.profile;
    const direction_profile &within = profile[copy_direction::within_device];
    pageable_facts direct = facts.pageable, packed = facts.pageable;
    direct.count = rows;
    packed.count = outer_rows;
    packed.bytes = facts.outer->bytes() * facts.parts; // repeated bytes are staged once
    const auto staged_ns = [](const pageable_facts &of) noexcept {
        return static_cast<double>(predict_pageable(of).staged_ns);
    };
    // The call passes each box to the batch. Each part begins anew, and its bytes are read and written on the device.
    const auto boxes_ns = [&](std::uint64_t boxes) noexcept {
        return static_cast<double>(boxes) * within.kernel_piece_ns;
    };
    const double direct_ns = staged_ns(direct) + boxes_ns(facts.boxes);
    const double packed_ns = staged_ns(packed) + parts * (boxes_ns(facts.outer_boxes) + within.kernel_fixed_ns) +
                             (parts - 1) * profile[direct.direction].staged_fixed_ns +
                             2000.0 * static_cast<double>(direct.bytes) / within.kernel_line_rate;
    return packed_ns * kernel_margin < direct_ns;
}

} // namespace ferry
