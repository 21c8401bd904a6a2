#include "plan/kernel_boxes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"

namespace ferry {

namespace {

using gpu::kernel;

// Indexed by the log2 of the word size in bytes.
constexpr kernel whole_kernels[] = {kernel::strided_1_whole, kernel::strided_2_whole, kernel::strided_4_whole,
                                    kernel::strided_8_whole, kernel::strided_16_whole};
constexpr kernel part_kernels[] = {kernel::strided_1_whole, kernel::strided_2, kernel::strided_4, kernel::strided_8,
                                   kernel::strided_16};
constexpr kernel fill_kernels[] = {kernel::fill_1, kernel::fill_2, kernel::fill_4, kernel::fill_8, kernel::fill_16};

// Returns the largest power of two, up to 16, that divides all numbers that were OR-ed together.
std::uint64_t common_alignment(std::uint64_t numbers) noexcept {
    return std::uint64_t{1} << std::countr_zero(numbers | 16);
}

// All rows have the alignment of the first row, unless the strides between rows change it.
row_words cut_rows(std::uint64_t first, std::uint64_t strides, std::uint64_t width, std::uint64_t word) noexcept {
    const std::uint64_t mask = word - 1;
    const int shift = std::countr_zero(word);
    if (strides & mask) return {word, (width + 2 * mask) >> shift, false};
    const std::uint64_t lead = first & mask;
    return {word, (lead + width + mask) >> shift, ((lead | width) & mask) == 0};
}

// Words are wide, unless narrower words fit the rows without partial words. The partial words of a row together take
// about as long as this many whole words. To host memory, each part is a separate write, and a row has three parts:
// they take 6 ns on an H200, the time of 150 single bytes (tests/kernel-speed: rows of 1 byte, scattered and gathered).
constexpr std::uint64_t cost_of_parts = 4, cost_of_parts_to_host = 150;

row_words words_of(const kernel_box &box) noexcept {
    const gpu::box_end &to = box.destination, &from = box.source;
    const gpu::box_end apart = {to.address - from.address, to.row_pitch - from.row_pitch,
                                to.slice_pitch - from.slice_pitch};
    return choose_words({.apart = apart.address | strides_of(apart, box.height, box.depth),
                         .first = to.address,
                         .strides = strides_of(to, box.height, box.depth),
                         .width = box.width},
                        box.writes_to_host);
}

std::uint64_t threads_of(std::uint32_t blocks) noexcept { return std::uint64_t{blocks} * gpu::threads_per_block; }

} // namespace

std::uint32_t blocks_with_work(std::uint32_t blocks, std::uint64_t threads) noexcept {
    const std::uint64_t needed = (threads - 1) / gpu::threads_per_block + 1;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, needed));
}

gpu::windows walk_over(std::uint64_t per_row, std::uint64_t height, std::uint64_t depth,
                       std::uint64_t walkers) noexcept {
    const std::uint64_t step_rows = walkers / per_row;
    return {.per_row = per_row,
            .rows_per_slice = height,
            .count = per_row * height * depth,
            .by_row = divisor_of(per_row),
            .by_slice = divisor_of(height),
            .step = walkers,
            .step_x = walkers % per_row,
            .step_y = step_rows % height,
            .step_z = step_rows / height};
}

gpu::divisor divisor_of(std::uint64_t by) noexcept {
    const auto bits = static_cast<unsigned>(std::bit_width(by - 1));      // 2^bits >= by
    const std::uint64_t power = bits < 64 ? std::uint64_t{1} << bits : 0; // 2^64 wraps around
    return {.multiplier = divide_high(power - by, by) + 1,
            .shift_before = std::min(bits, 1u),
            .shift_after = bits ? bits - 1 : 0};
}

row_words choose_words(const row_places &places, bool is_to_host) noexcept {
    const auto cut = [&](std::uint64_t word) noexcept {
        return cut_rows(places.first, places.strides, places.width, word);
    };
    const std::uint64_t parts = is_to_host ? cost_of_parts_to_host : cost_of_parts;
    std::uint64_t best = 0, least = UINT64_MAX;
    for (std::uint64_t word = common_alignment(places.apart); word != 0; word /= 2) {
        const row_words rows = cut(word);
        const std::uint64_t cost = rows.windows + (rows.is_whole ? 0 : parts);
        if (cost < least) {
            least = cost;
            best = word;
        }
        if (rows.is_whole) break;
    }
    return cut(best);
}

kernel_box box_of(const shape &shape, std::uint64_t destination, std::uint64_t source) noexcept {
    const auto end = [](const shape_end &of, std::uint64_t address) {
        return gpu::box_end{address, of.row_pitch, of.row_pitch * of.slice_height};
    };
    return {end(shape.destination, destination), end(shape.source, source), shape.width, shape.height, shape.depth,
            is_host(shape.destination.kind)};
}

strided_launch lay_out_strided(const kernel_box &box, std::uint32_t blocks) noexcept {
    const row_words rows = words_of(box);
    const std::uint32_t used = blocks_with_work(blocks, rows.windows * box.height * box.depth);
    const auto *const kernels_by_word = rows.is_whole ? whole_kernels : part_kernels;
    return {.kernel = kernels_by_word[std::countr_zero(rows.word)],
            .blocks = used,
            .parameters = {.destination = box.destination,
                           .source = box.source,
                           .width = box.width,
                           .over = walk_over(rows.windows, box.height, box.depth, threads_of(used))}};
}

fill_launch lay_out_fill_kernel(const kernel_fill &fill, std::uint32_t blocks) noexcept {
    const gpu::box_end &to = fill.destination;
    const row_words rows = choose_words(
        {.apart = 0, .first = to.address, .strides = strides_of(to, fill.height, fill.depth), .width = fill.width},
        false);
    const std::uint32_t used = blocks_with_work(blocks, rows.windows * fill.height * fill.depth);
    std::uint8_t aligned[16];
    for (std::uint64_t i = 0; i < sizeof aligned; ++i)
        aligned[i] = fill.pattern[(i - to.address) % fill.pattern_size];
    fill_launch launch = {.kernel = fill_kernels[std::countr_zero(rows.word)],
                          .blocks = used,
                          .parameters = {.destination = to,
                                         .width = fill.width,
                                         .pattern_low = 0,
                                         .pattern_high = 0,
                                         .over = walk_over(rows.windows, fill.height, fill.depth, threads_of(used))}};
    std::memcpy(&launch.parameters.pattern_low, aligned, 8);
    std::memcpy(&launch.parameters.pattern_high, aligned + 8, 8);
    return launch;
}

team_cut cut_boxes(std::uint64_t count, std::uint64_t bytes) noexcept {
    // Units count windows. A thread has fewer windows in flight than accesses to a piece.
    constexpr std::uint32_t word_shift = 4, in_flight_shift = 1, max_unit_shift = 10;
    return cut_for(count, bytes >> word_shift, in_flight_shift, max_unit_shift);
}

pack_result box_packer::add(const kernel_box &box) noexcept {
    const row_words rows = words_of(box);
    std::uint64_t windows = 0;
    if (box.width > UINT32_MAX || box.height > UINT32_MAX || box.depth > UINT32_MAX ||
        !multiply(rows.windows, box.height, windows) || !multiply(windows, box.depth, windows) ||
        windows > max_windows_of_a_box)
        return pack_result::too_large;
    if (count() == room_) return pack_result::no_room;
    gpu::box &record = table_[count()];
    std::uint32_t first_unit = 0;
    if (!note(windows, first_unit)) return pack_result::no_room;
    const auto per_row = static_cast<std::uint32_t>(rows.windows), height = static_cast<std::uint32_t>(box.height);
    record = {.destination = box.destination,
              .source = box.source,
              .by_row = short_divisor_of(per_row),
              .by_slice = short_divisor_of(height),
              .width = static_cast<std::uint32_t>(box.width),
              .per_row = per_row,
              .rows_per_slice = height,
              .windows = static_cast<std::uint32_t>(windows),
              .word_shift = static_cast<std::uint32_t>(std::countr_zero(rows.word)),
              .first_unit = first_unit};
    return pack_result::added;
}

} // namespace ferry
