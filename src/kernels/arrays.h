// Copies boxes of arrays into linear memory, as raw bytes through surfaces: one box, or many boxes in one launch.
// Arrays are stored in tiles of a few words and rows, so the kernels traverse them tile by tile. From linear memory to
// arrays, the driver's own copy is faster.
#pragma once

#include "kernels/box_jobs.h"

namespace ferry::gpu {

// The position of a word in a box: words, rows and slices from the first word.
struct place_in_box {
    u32 x, y, z;
};

template <class Word, class Box>
FERRY_KERNEL_CODE Word read_word(const Box &of, array_form form, const place_in_box &at) {
    return read_surface(of.surface, form, of.x + at.x * static_cast<u32>(sizeof(Word)), of.y + at.y, of.z + at.z,
                        Word{});
}

// ---- One box ---------------------------------------------------------------------------------------------------

// Each warp reads one tile after another. In each tile, a thread reads two words of one row.
template <class Word, array_form form>
FERRY_KERNEL_CODE void read_tiles(const array_parameters &of, const thread_index &me) {
    const u32 lane = me.thread % threads_per_tile, words_shift = of.tile_words_shift;
    const u32 word_in_tile = lane & ((1u << words_shift) - 1), row_in_tile = lane >> words_shift;
    u64 tile = me.in_grid() / threads_per_tile;
    position at = find(of.over, tile);
    FERRY_NOT_UNROLLED
    for (; tile < of.over.count; tile += of.over.step, advance(of.over, at)) {
        const place_in_box low = {static_cast<u32>(at.x) << (words_shift + 1) | word_in_tile,
                                  static_cast<u32>(at.y) << of.tile_rows_shift | row_in_tile, static_cast<u32>(at.z)};
        const place_in_box high = {low.x + (1u << words_shift), low.y, low.z};
        const bool has_low = low.y < of.rows && low.x < of.words, has_high = low.y < of.rows && high.x < of.words;
        const u64 row = row_at(of.destination, {0, low.y, low.z});
        Word words[2];
        if (has_low) words[0] = read_word<Word>(of, form, low);
        if (has_high) words[1] = read_word<Word>(of, form, high);
        if (has_low) store(row + low.x * u64{sizeof(Word)}, words[0]);
        if (has_high) store(row + high.x * u64{sizeof(Word)}, words[1]);
    }
}

// Selects the form before the loop, so that the loop does not branch on the form while loads are in flight.
template <class Word> FERRY_KERNEL_CODE void read_by_form(const array_parameters &of, const thread_index &me) {
    switch (of.form) {
    case array_form::one_d:
        return read_tiles<Word, array_form::one_d>(of, me);
    case array_form::two_d:
        return read_tiles<Word, array_form::two_d>(of, me);
    case array_form::three_d:
        return read_tiles<Word, array_form::three_d>(of, me);
    case array_form::layers_of_one_d:
        return read_tiles<Word, array_form::layers_of_one_d>(of, me);
    default:
        return read_tiles<Word, array_form::layers_of_two_d>(of, me);
    }
}

FERRY_KERNEL_CODE void read_array(const array_parameters &of, const thread_index &me) {
    switch (of.word_shift) {
    case 0:
        return read_by_form<u8>(of, me);
    case 1:
        return read_by_form<u16>(of, me);
    case 2:
        return read_by_form<u32>(of, me);
    case 3:
        return read_by_form<u64>(of, me);
    default:
        return read_by_form<sixteen_bytes>(of, me);
    }
}

// ---- Many boxes ------------------------------------------------------------------------------------------------

FERRY_KERNEL_CODE place_in_box find_in_tiles(const array_box &of, u32 window) {
    const u32 tile = window >> (of.tile_words_shift + of.tile_rows_shift);
    const u32 row = divide(tile, of.by_row);
    const u32 slice = divide(row, of.by_slice);
    const u32 word_in_tile = window & ((1u << of.tile_words_shift) - 1);
    const u32 row_in_tile = window >> of.tile_words_shift & ((1u << of.tile_rows_shift) - 1);
    return {(tile - row * of.tiles_per_row) << of.tile_words_shift | word_in_tile,
            (row - slice * of.tile_rows) << of.tile_rows_shift | row_in_tile, slice};
}

struct read_boxes {
    template <class Word>
    static FERRY_KERNEL_CODE void windows(const array_box &of, u32 begin, u32 end, const team_member &me) {
        FERRY_NOT_UNROLLED
        for (u32 window = begin + me.thread; window < end; window += me.threads) {
            const place_in_box at = find_in_tiles(of, window);
            if (at.x >= of.words || at.y >= of.rows) continue;
            store(row_at(of.destination, {0, at.y, at.z}) + at.x * u64{sizeof(Word)}, read_word<Word>(of, of.form, at));
        }
    }
};

FERRY_KERNEL_CODE void read_arrays(const array_box_parameters &given, const thread_index &me) {
    const places_of_boxes<array_box_parameters> places = {given};
    do_jobs_in_turn(given.work, places, me, [&](u32 index, u32 unit, const team_member &member) {
        do_box_unit<read_boxes>(places.box_at(index), unit, given.work.unit_shift, member);
    });
}

} // namespace ferry::gpu
