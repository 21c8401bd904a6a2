// Copies between two layouts: nests of axes with any strides. A tile of the axes x and y is copied by a team of threads
// that are neighbours on both axes, so that warps read and write runs of memory. If the runs of the source are on
// another axis than the runs of the destination, each thread transposes a small block in its registers.
#pragma once

#include "kernels/access.h"

namespace ferry::gpu {

struct nest_ends {
    u64 destination, source;
};

// Returns the index at `coordinate`, or false if it is not below the limit.
FERRY_KERNEL_CODE bool read_index(u64 indices, u32 is_wide, u64 limit, u64 coordinate, u64 &index) {
    index = is_wide ? read_table<u64>(indices, coordinate) : read_table<u32>(indices, coordinate);
    return index < limit;
}

// Moves the ends to a coordinate of the axis. Returns false if an index there is skipped.
FERRY_KERNEL_CODE bool move_along(const tiled_axis &axis, u64 coordinate, nest_ends &ends) {
    u64 to = coordinate, from = coordinate;
    bool is_inside = true;
    if (axis.destination_indices)
        is_inside =
            read_index(axis.destination_indices, axis.destination_is_wide, axis.destination_limit, coordinate, to);
    if (axis.source_indices)
        is_inside &= read_index(axis.source_indices, axis.source_is_wide, axis.source_limit, coordinate, from);
    ends.destination += to * axis.destination_stride;
    ends.source += from * axis.source_stride;
    return is_inside;
}

// The first word or group of a tile.
struct nest_tile {
    u64 x, y;
    nest_ends ends;
    bool is_inside; // no index of the outer axes is skipped
    bool is_first;  // all coordinates of the outer axes are 0
};

FERRY_KERNEL_CODE nest_tile find_tile(const nest_parameters &nest, u64 number) {
    nest_tile tile = {0, 0, {nest.destination, nest.source}, true, true};
    u64 rest = divide(number, nest.axis[0].by_tiles);
    tile.x = (number - rest * nest.axis[0].tiles) << nest.x_shift;
    number = rest;
    rest = divide(number, nest.axis[1].by_tiles);
    tile.y = (number - rest * nest.axis[1].tiles) << nest.y_shift;
    FERRY_NOT_UNROLLED
    for (u32 i = 2; i < nest.axes; ++i) {
        number = rest;
        rest = divide(number, nest.axis[i].by_tiles);
        const u64 coordinate = number - rest * nest.axis[i].tiles;
        tile.is_inside &= move_along(nest.axis[i], coordinate, tile.ends);
        tile.is_first &= coordinate == 0;
    }
    return tile;
}

// Counts the skipped indices of the outer axes. Each is counted once, by the tile whose other coordinates are all 0.
FERRY_KERNEL_CODE void count_skipped(const nest_parameters &nest, u64 number) {
    number = divide(number, nest.axis[0].by_tiles);
    number = divide(number, nest.axis[1].by_tiles);
    u32 beyond_first = 0, skipped_first = 0, skipped_later = 0;
    FERRY_NOT_UNROLLED
    for (u32 i = 2; i < nest.axes; ++i) {
        const u64 rest = divide(number, nest.axis[i].by_tiles);
        const u64 coordinate = number - rest * nest.axis[i].tiles;
        number = rest;
        nest_ends ignored = {0, 0};
        const bool is_skipped = !move_along(nest.axis[i], coordinate, ignored);
        beyond_first += coordinate != 0;
        skipped_first += is_skipped && coordinate == 0;
        skipped_later += is_skipped && coordinate != 0;
    }
    const u32 counted = beyond_first == 0 ? skipped_first : beyond_first == 1 ? skipped_later : 0;
    FERRY_NOT_UNROLLED
    for (u32 i = 0; i < counted; ++i)
        count_up(nest.skipped);
}

// The place of number `at` of a tile's words or groups.
struct nest_offset {
    u32 x, y;
};
FERRY_KERNEL_CODE nest_offset offset_in_tile(const nest_parameters &nest, u32 at) {
    const u32 x_low = at & ((1u << nest.x_low) - 1);
    at >>= nest.x_low;
    const u32 y_low = at & ((1u << nest.y_low) - 1);
    at >>= nest.y_low;
    const u32 x_bits = nest.x_shift - nest.x_low;
    const u32 x_high = at & ((1u << x_bits) - 1);
    return {x_low | x_high << nest.x_low, y_low | (at >> x_bits) << nest.y_low};
}

// Copies a nest of words.
template <class Word> FERRY_KERNEL_CODE void copy_nest(const nest_parameters &nest, const thread_index &me) {
    const u32 member = static_cast<u32>(me.in_grid()) & ((1u << nest.team_shift) - 1);
    const u64 teams = u64{me.blocks} * me.threads >> nest.team_shift;
    FERRY_NOT_UNROLLED
    for (u64 number = me.in_grid() >> nest.team_shift; number < nest.tiles; number += teams) {
        const nest_tile tile = find_tile(nest, number);
        Word words[in_flight];
        u64 destinations[in_flight];
        FERRY_UNROLLED
        for (u32 i = 0; i < in_flight; ++i) {
            const nest_offset at = offset_in_tile(nest, member + (i << nest.team_shift));
            const u64 x = tile.x + at.x, y = tile.y + at.y;
            destinations[i] = 0;
            if (x >= nest.axis[0].count || y >= nest.axis[1].count) continue;
            nest_ends ends = tile.ends;
            const bool x_inside = move_along(nest.axis[0], x, ends), y_inside = move_along(nest.axis[1], y, ends);
            if (tile.is_inside && x_inside && y_inside) {
                destinations[i] = ends.destination;
                words[i] = load<Word>(ends.source);
            } else if (nest.skipped && tile.is_first) {
                if (!x_inside && y == 0) count_up(nest.skipped);
                if (!y_inside && x == 0) count_up(nest.skipped);
            }
        }
        FERRY_UNROLLED
        for (u32 i = 0; i < in_flight; ++i)
            if (destinations[i]) store(destinations[i], words[i]);
        if (!tile.is_inside && nest.skipped && member == 0 && tile.x == 0 && tile.y == 0) count_skipped(nest, number);
    }
}

// Selects 4 of the 8 bytes of two words: byte i of the result is the byte whose number is in bits 4i to 4i + 2.
FERRY_KERNEL_CODE u32 select_bytes(u32 low, u32 high, u32 selector) {
#if defined(__CUDACC__)
    return __byte_perm(low, high, selector);
#else
    const u64 both = u64{high} << 32 | low;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i)
        result |= static_cast<u32>(both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
    return result;
#endif
}

// A block of across x along elements in registers, as 32-bit words: `rows` of the source, `columns` of the destination.
template <u32 size, u32 across, u32 along> struct register_block {
    static constexpr u32 row_words = along * size / 4, column_words = across * size / 4;
    u32 rows[across][row_words];
    u32 columns[along][column_words];

    FERRY_KERNEL_CODE void transpose() {
        if constexpr (size >= 4) {
            constexpr u32 parts = size / 4;
            FERRY_UNROLLED
            for (u32 i = 0; i < across; ++i)
                FERRY_UNROLLED
            for (u32 j = 0; j < along; ++j)
                FERRY_UNROLLED
            for (u32 part = 0; part < parts; ++part)
                columns[j][i * parts + part] = rows[i][j * parts + part];
        } else if constexpr (size == 2) {
            FERRY_UNROLLED
            for (u32 i = 0; i < column_words; ++i)
                FERRY_UNROLLED
            for (u32 j = 0; j < row_words; ++j) {
                const u32 a = rows[2 * i][j], b = rows[2 * i + 1][j];
                columns[2 * j][i] = select_bytes(a, b, 0x5410);
                columns[2 * j + 1][i] = select_bytes(a, b, 0x7632);
            }
        } else {
            FERRY_UNROLLED
            for (u32 i = 0; i < column_words; ++i)
                FERRY_UNROLLED
            for (u32 j = 0; j < row_words; ++j) {
                const u32 a = rows[4 * i][j], b = rows[4 * i + 1][j], c = rows[4 * i + 2][j], d = rows[4 * i + 3][j];
                const u32 ab = select_bytes(a, b, 0x5140), cd = select_bytes(c, d, 0x5140);
                columns[4 * j][i] = select_bytes(ab, cd, 0x5410);
                columns[4 * j + 1][i] = select_bytes(ab, cd, 0x7632);
                const u32 ab_high = select_bytes(a, b, 0x7362), cd_high = select_bytes(c, d, 0x7362);
                columns[4 * j + 2][i] = select_bytes(ab_high, cd_high, 0x5410);
                columns[4 * j + 3][i] = select_bytes(ab_high, cd_high, 0x7632);
            }
        }
    }
};

FERRY_KERNEL_CODE void load_words(u64 address, u32 (&words)[4]) {
    const sixteen_bytes all = load<sixteen_bytes>(address);
    words[0] = static_cast<u32>(all.low), words[1] = static_cast<u32>(all.low >> 32);
    words[2] = static_cast<u32>(all.high), words[3] = static_cast<u32>(all.high >> 32);
}
FERRY_KERNEL_CODE void store_words(u64 address, const u32 (&words)[4]) {
    store(address, sixteen_bytes{u64{words[1]} << 32 | words[0], u64{words[3]} << 32 | words[2]});
}
FERRY_KERNEL_CODE void store_words(u64 address, const u32 (&words)[2]) {
    store(address, u64{words[1]} << 32 | words[0]);
}

// Copies a nest whose elements are adjacent on x in the destination, and on y in the source. A thread copies a group of
// across x along elements. Tiles count groups.
template <class Element, u32 across, u32 along>
FERRY_KERNEL_CODE void transpose_nest(const nest_parameters &nest, const thread_index &me) {
    constexpr u32 size = sizeof(Element);
    const u32 member = static_cast<u32>(me.in_grid()) & ((1u << nest.team_shift) - 1);
    const u64 teams = u64{me.blocks} * me.threads >> nest.team_shift;
    const u64 row_stride = nest.axis[0].source_stride, column_stride = nest.axis[1].destination_stride;
    const nest_offset at = offset_in_tile(nest, member);
    FERRY_NOT_UNROLLED
    for (u64 number = me.in_grid() >> nest.team_shift; number < nest.tiles; number += teams) {
        const nest_tile tile = find_tile(nest, number);
        if (!tile.is_inside) {
            if (nest.skipped && member == 0 && tile.x == 0 && tile.y == 0) count_skipped(nest, number);
            continue;
        }
        const u64 x = (tile.x + at.x) * across, y = (tile.y + at.y) * along;
        if (x >= nest.axis[0].count || y >= nest.axis[1].count) continue;
        const u64 source = tile.ends.source + x * row_stride + y * size;
        const u64 destination = tile.ends.destination + y * column_stride + x * size;
        if (x + across <= nest.axis[0].count && y + along <= nest.axis[1].count) {
            register_block<size, across, along> block;
            FERRY_UNROLLED
            for (u32 i = 0; i < across; ++i)
                load_words(source + i * row_stride, block.rows[i]);
            block.transpose();
            FERRY_UNROLLED
            for (u32 j = 0; j < along; ++j)
                store_words(destination + j * column_stride, block.columns[j]);
            continue;
        }
        const u32 columns = x + across <= nest.axis[0].count ? across : static_cast<u32>(nest.axis[0].count - x);
        const u32 rows = y + along <= nest.axis[1].count ? along : static_cast<u32>(nest.axis[1].count - y);
        FERRY_NOT_UNROLLED
        for (u32 j = 0; j < rows; ++j)
            FERRY_NOT_UNROLLED
        for (u32 i = 0; i < columns; ++i)
            move<Element>(destination + j * column_stride + i * size, source + i * row_stride + j * size);
    }
}

} // namespace ferry::gpu
