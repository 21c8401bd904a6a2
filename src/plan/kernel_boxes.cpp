#include "plan/kernel_boxes.h"

#include <algorithm>
#include <bit>

namespace ferry {

namespace {

using kernels::kernel;

// By the logarithm of the words' bytes.
constexpr kernel whole_kernels[] = {kernel::strided_1_whole, kernel::strided_2_whole, kernel::strided_4_whole,
                                    kernel::strided_8_whole, kernel::strided_16_whole};
constexpr kernel part_kernels[] = {kernel::strided_1_whole, kernel::strided_2, kernel::strided_4, kernel::strided_8,
                                   kernel::strided_16};

// The largest power of two up to 16 that divides all of what was or-ed together.
std::uint64_t common_alignment(std::uint64_t numbers) noexcept {
    return std::uint64_t{1} << std::countr_zero(numbers | 16);
}

struct cut {
    std::uint64_t windows; // of a row, at most
    bool is_whole;
};

// A row's alignment is that of the first one, unless the strides between rows change it.
cut cut_rows(std::uint64_t first, std::uint64_t strides, std::uint64_t width, std::uint64_t word) noexcept {
    if (strides % word) return {(width + 2 * word - 2) / word, false};
    const std::uint64_t lead = first % word;
    return {(lead + width + word - 1) / word, lead == 0 && width % word == 0};
}

struct word_choice {
    std::uint64_t word;
    cut rows;
};

// Wide words, unless narrower ones fit the rows without parts: those of a row together take about as long as this many
// whole words.
constexpr std::uint64_t cost_of_parts = 4;

word_choice choose_word(const kernel_box &box) noexcept {
    const kernels::box_end &to = box.destination, &from = box.source;
    const bool has_rows = box.height > 1, has_slices = box.depth > 1;
    const std::uint64_t apart = (to.address - from.address) | (has_rows ? to.row_pitch - from.row_pitch : 0) |
                                (has_slices ? to.slice_pitch - from.slice_pitch : 0);
    const std::uint64_t strides = (has_rows ? to.row_pitch : 0) | (has_slices ? to.slice_pitch : 0);
    word_choice best = {};
    std::uint64_t least = UINT64_MAX;
    for (std::uint64_t word = common_alignment(apart); word != 0; word /= 2) {
        const cut rows = cut_rows(to.address, strides, box.width, word);
        const std::uint64_t cost = rows.windows + (rows.is_whole ? 0 : cost_of_parts);
        if (cost < least) {
            least = cost;
            best = {word, rows};
        }
        if (rows.is_whole) break;
    }
    return best;
}

kernels::windows walk(std::uint64_t per_row, std::uint64_t height, std::uint64_t depth,
                      std::uint64_t threads) noexcept {
    const std::uint64_t step_rows = threads / per_row;
    return {.per_row = per_row,
            .rows_per_slice = height,
            .count = per_row * height * depth,
            .by_row = divisor_of(per_row),
            .by_slice = divisor_of(height),
            .step = threads,
            .step_x = threads % per_row,
            .step_y = step_rows % height,
            .step_z = step_rows / height};
}

} // namespace

kernels::divisor divisor_of(std::uint64_t by) noexcept {
    __extension__ using wide = unsigned __int128;
    const auto bits = static_cast<unsigned>(std::bit_width(by - 1)); // 2^bits >= by
    const wide power = wide{1} << bits;
    return {.multiplier = static_cast<std::uint64_t>(((power - by) << 64) / by) + 1,
            .shift_before = std::min(bits, 1u),
            .shift_after = bits ? bits - 1 : 0};
}

kernel_box box_of(const shape &shape, std::uint64_t destination, std::uint64_t source) noexcept {
    const auto end = [](const shape_end &of, std::uint64_t address) {
        return kernels::box_end{address, of.row_pitch, of.row_pitch * of.slice_height};
    };
    return {end(shape.destination, destination), end(shape.source, source), shape.width, shape.height, shape.depth};
}

strided_launch lay_out_strided(const kernel_box &box, std::uint32_t blocks) noexcept {
    const word_choice choice = choose_word(box);
    const std::uint64_t count = choice.rows.windows * box.height * box.depth;
    const std::uint64_t blocks_with_work = (count - 1) / kernels::threads_per_block + 1;
    const auto used = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(blocks, 1, blocks_with_work));
    const auto *const kernels_by_word = choice.rows.is_whole ? whole_kernels : part_kernels;
    return {.kernel = kernels_by_word[std::countr_zero(choice.word)],
            .blocks = used,
            .parameters = {.destination = box.destination,
                           .source = box.source,
                           .width = box.width,
                           .over = walk(choice.rows.windows, box.height, box.depth,
                                        std::uint64_t{used} * kernels::threads_per_block)}};
}

} // namespace ferry
