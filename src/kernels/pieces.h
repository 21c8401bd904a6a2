// Many runs of bytes, small and large, in one launch.
#pragma once

#include "kernels/access.h"

namespace ferry::kernels {

struct pieces_in_parameters {
    const piece_parameters &of;

    FERRY_KERNEL_CODE piece operator[](u32 index) const { return of.pieces[index]; }
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const { return of.pieces[index].first_unit; }
};

struct pieces_in_table {
    u64 table;

    FERRY_KERNEL_CODE piece operator[](u32 index) const { return read_table<piece>(table, index); }
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const {
        return read_table<u32>(table, u64{index} * (sizeof(piece) / sizeof(u32)) + sizeof(piece) / sizeof(u32) - 1);
    }
};

// Which piece a unit is of. Where all pieces are of one size the first guess is right; else the steps away from it
// double until the unit is between two, and are halved again.
template <class Pieces> FERRY_KERNEL_CODE u32 find_piece(const Pieces &pieces, const piece_work &work, u32 unit) {
    u32 low = static_cast<u32>(unit * work.pieces_per_unit >> 32);
    if (low >= work.count) low = work.count - 1;
    u32 high = low + 1;
    u32 step = 1;
    if (pieces.first_unit(low) <= unit) {
        while (high < work.count && pieces.first_unit(high) <= unit) {
            low = high;
            high = work.count - high > step ? high + step : work.count;
            step *= 2;
        }
    } else {
        do {
            high = low;
            low = low > step ? low - step : 0;
            step *= 2;
        } while (pieces.first_unit(low) > unit);
    }
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (pieces.first_unit(middle) <= unit)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct team_member {
    u32 thread, threads;
};

// The bytes at an end, fewer than a word: one for each thread.
FERRY_KERNEL_CODE void copy_bytes(u64 destination, u64 source, u32 size, const team_member &me) {
    FERRY_NOT_UNROLLED
    for (u32 i = me.thread; i < size; i += me.threads)
        move<u8>(destination + i, source + i);
}

// Words a stride apart, up to as many as can be under way together, of what is left.
template <class Word> FERRY_KERNEL_CODE void copy_words(u64 destination, u64 source, u32 left, u32 stride) {
    Word words[in_flight];
    FERRY_UNROLLED
    for (u32 i = 0; i < in_flight; ++i)
        if (i * stride < left) words[i] = load<Word>(source + i * stride);
    FERRY_UNROLLED
    for (u32 i = 0; i < in_flight; ++i)
        if (i * stride < left) store(destination + i * stride, words[i]);
}

// Source and destination agree in their alignment to a word.
template <class Word> FERRY_KERNEL_CODE void copy_run(u64 destination, u64 source, u32 size, const team_member &me) {
    constexpr u32 word = sizeof(Word);
    const u32 before_words = static_cast<u32>(-destination % word);
    const u32 head = before_words < size ? before_words : size;
    const u32 end_of_words = size - (size - head) % word;
    const u32 stride = me.threads * word;
    FERRY_NOT_UNROLLED
    for (u32 at = head + me.thread * word; at < end_of_words; at += in_flight * stride)
        copy_words<Word>(destination + at, source + at, end_of_words - at, stride);
    if (word == 1) return;
    copy_bytes(destination, source, head, me);
    copy_bytes(destination + end_of_words, source + end_of_words, size - end_of_words, me);
}

// A unit begins where the destination is aligned to 16 bytes, so the ends of units within a piece are whole words.
FERRY_KERNEL_CODE void copy_unit(const piece &of, u32 unit, u32 unit_shift, const team_member &me) {
    const u64 begin = (of.destination & ~u64{15}) + (u64{unit - of.first_unit} << unit_shift);
    const u64 last = of.destination + of.size;
    const u64 first = begin < of.destination ? of.destination : begin;
    const u64 end = last - begin > u64{1} << unit_shift ? begin + (u64{1} << unit_shift) : last;
    const u64 source = of.source + (first - of.destination);
    const u32 size = static_cast<u32>(end - first);
    const u64 apart = of.destination - of.source;
    if (apart % 16 == 0)
        copy_run<sixteen_bytes>(first, source, size, me);
    else if (apart % 8 == 0)
        copy_run<u64>(first, source, size, me);
    else if (apart % 4 == 0)
        copy_run<u32>(first, source, size, me);
    else if (apart % 2 == 0)
        copy_run<u16>(first, source, size, me);
    else
        copy_run<u8>(first, source, size, me);
}

template <class Pieces>
FERRY_KERNEL_CODE void copy_pieces(const piece_work &work, const Pieces &pieces, const thread_index &me) {
    const u64 team = me.in_grid() >> work.team_shift;
    const team_member member = {me.thread & ((1u << work.team_shift) - 1), 1u << work.team_shift};
    const u64 with_one_more = team < work.teams_with_one_more ? team : work.teams_with_one_more;
    u64 unit = team * work.units_per_team + with_one_more;
    const u64 end = unit + work.units_per_team + (team < work.teams_with_one_more);
    if (unit >= end || unit >= work.units) return;

    u32 index = find_piece(pieces, work, static_cast<u32>(unit));
    piece current = pieces[index];
    for (;;) {
        // The next piece is on its way while this one is copied.
        const bool has_next = index + 1 < work.count;
        const piece next = has_next ? pieces[index + 1] : piece{0, 0, 0, work.units};
        for (; unit < next.first_unit; ++unit) {
            if (unit == end) return;
            copy_unit(current, static_cast<u32>(unit), work.unit_shift, member);
        }
        if (unit == end || !has_next) return;
        current = next;
        ++index;
    }
}

FERRY_KERNEL_CODE void copy_pieces_in_parameters(const piece_parameters &given, const thread_index &me) {
    copy_pieces(given.work, pieces_in_parameters{given}, me);
}

FERRY_KERNEL_CODE void copy_pieces_in_table(const piece_table_parameters &given, const thread_index &me) {
    copy_pieces(given.work, pieces_in_table{given.table}, me);
}

} // namespace ferry::kernels
