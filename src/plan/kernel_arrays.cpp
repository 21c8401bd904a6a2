#include "plan/kernel_arrays.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"

namespace ferry {

namespace {

struct tile_shifts {
    unsigned words, rows;
};

constexpr unsigned threads_shift = std::countr_zero(gpu::threads_per_tile);

// The tile that a warp reads in one step. 8 words of 16 bytes in each of 4 rows are whole cache lines at both ends.
tile_shifts tile_of(std::uint64_t words, std::uint64_t rows) noexcept {
    constexpr unsigned rows_shift = 2;
    const auto enough_for = [](std::uint64_t number) { return static_cast<unsigned>(std::bit_width(number - 1)); };
    const unsigned of_rows = std::min(enough_for(rows), rows_shift);
    const unsigned of_words = std::min(enough_for(words), threads_shift - of_rows);
    return {of_words, std::min(enough_for(rows), threads_shift - of_words)};
}

// Returns the log2 of the size in bytes of the widest words that both ends of every row permit.
unsigned word_shift_of(const kernel_array_box &box) noexcept {
    return static_cast<unsigned>(std::countr_zero(
        box.destination.address | strides_of(box.destination, box.height, box.depth) | box.x | box.width | 16));
}

std::uint32_t narrow(std::uint64_t number) noexcept { return static_cast<std::uint32_t>(number); }
std::uint8_t narrow(unsigned shift) noexcept { return static_cast<std::uint8_t>(shift); }

std::uint64_t shift_up(std::uint64_t number, unsigned shift) noexcept {
    return (number + (std::uint64_t{1} << shift) - 1) >> shift;
}

} // namespace

gpu::array_form array_form_of(std::uint64_t rows, std::uint64_t slices, bool is_layered) noexcept {
    using gpu::array_form;
    if (is_layered) return rows ? array_form::layers_of_two_d : array_form::layers_of_one_d;
    if (slices) return array_form::three_d;
    return rows ? array_form::two_d : array_form::one_d;
}

array_launch lay_out_array(const kernel_array_box &box, std::uint32_t blocks) noexcept {
    const unsigned word_shift = word_shift_of(box);
    const std::uint64_t words = box.width >> word_shift;
    const unsigned tile_words = tile_of((words + 1) / 2, box.height).words, tile_rows = threads_shift - tile_words;
    const std::uint64_t tiles_per_row = shift_up(words, tile_words + 1),
                        rows_of_tiles = shift_up(box.height, tile_rows);
    constexpr std::uint32_t warps_per_block = gpu::threads_per_block / gpu::threads_per_tile;
    const std::uint64_t tiles = tiles_per_row * rows_of_tiles * box.depth;
    const std::uint32_t used = blocks_with_work(blocks, tiles * gpu::threads_per_tile);
    return {.blocks = used,
            .parameters = {
                .destination = box.destination,
                .surface = box.surface,
                .x = narrow(box.x),
                .y = narrow(box.y),
                .z = narrow(box.z),
                .words = narrow(words),
                .rows = narrow(box.height),
                .form = box.form,
                .word_shift = narrow(word_shift),
                .tile_words_shift = narrow(tile_words),
                .tile_rows_shift = narrow(tile_rows),
                .over = walk_over(tiles_per_row, rows_of_tiles, box.depth, std::uint64_t{used} * warps_per_block)}};
}

team_cut cut_array_boxes(std::uint64_t count, std::uint64_t bytes) noexcept {
    // Units of four windows per thread, with one in flight at a time. On an H200, 1000 boxes of 16^3 texels of 4 bytes
    // take 17 us with this cut, and 19 us with two windows.
    constexpr std::uint32_t word_shift = 4, per_thread_shift = 2, max_unit_shift = 10;
    return cut_for(count, bytes >> word_shift, per_thread_shift, max_unit_shift);
}

pack_result array_packer::add(const kernel_array_box &box) noexcept {
    // Arrays are addressed with 32 bits, of which a surface uses 31.
    constexpr std::uint64_t largest = std::uint64_t{1} << 31;
    if (box.x + box.width > largest || box.y + box.height > largest || box.z + box.depth > largest)
        return pack_result::too_large;
    const unsigned word_shift = word_shift_of(box);
    const std::uint64_t words = box.width >> word_shift;
    const tile_shifts tile = tile_of(words, box.height);
    const std::uint64_t tiles_per_row = shift_up(words, tile.words), tile_rows = shift_up(box.height, tile.rows);
    std::uint64_t windows = 0;
    if (!multiply(tiles_per_row * tile_rows << (tile.words + tile.rows), box.depth, windows) ||
        windows > max_windows_of_a_box)
        return pack_result::too_large;
    if (count() == room_) return pack_result::no_room;
    gpu::array_box &record = table_[count()];
    std::uint32_t first_unit = 0;
    if (!note(windows, first_unit)) return pack_result::no_room;
    record = {.destination = box.destination,
              .surface = box.surface,
              .by_row = short_divisor_of(narrow(tiles_per_row)),
              .by_slice = short_divisor_of(narrow(tile_rows)),
              .x = narrow(box.x),
              .y = narrow(box.y),
              .z = narrow(box.z),
              .words = narrow(words),
              .rows = narrow(box.height),
              .tiles_per_row = narrow(tiles_per_row),
              .tile_rows = narrow(tile_rows),
              .windows = narrow(windows),
              .form = box.form,
              .word_shift = narrow(word_shift),
              .tile_words_shift = narrow(tile.words),
              .tile_rows_shift = narrow(tile.rows),
              .first_unit = first_unit};
    return pack_result::added;
}

} // namespace ferry
