// Copies many runs of bytes, small and large, in one launch.
#pragma once

#include "kernels/teams.h"

namespace ferry::gpu {

// Copies the bytes at one end of a run, fewer than a word, byte by byte. The team shares the work.
FERRY_KERNEL_CODE void copy_bytes(u64 destination, u64 source, u32 size, const team_member &me) {
    FERRY_NOT_UNROLLED
    for (u32 i = me.thread; i < size; i += me.threads)
        move<u8>(destination + i, source + i);
}

// Copies up to `together` words at a distance of `stride` bytes, within the `left` bytes that remain. All loads are in
// flight at the same time.
template <class Word, u32 together>
FERRY_KERNEL_CODE void copy_words(u64 destination, u64 source, u32 left, u32 stride) {
    Word words[together];
    FERRY_UNROLLED
    for (u32 i = 0; i < together; ++i)
        if (i * stride < left) words[i] = load<Word>(source + i * stride);
    FERRY_UNROLLED
    for (u32 i = 0; i < together; ++i)
        if (i * stride < left) store(destination + i * stride, words[i]);
}

// Copies one run. Source and destination have the same alignment modulo a word.
template <class Word, u32 together = in_flight>
FERRY_KERNEL_CODE void copy_run(u64 destination, u64 source, u32 size, const team_member &me) {
    constexpr u32 word = sizeof(Word);
    const u32 before_words = static_cast<u32>(-destination % word);
    const u32 head = before_words < size ? before_words : size;
    const u32 end_of_words = size - (size - head) % word;
    const u32 stride = me.threads * word;
    FERRY_NOT_UNROLLED
    for (u32 at = head + me.thread * word; at < end_of_words; at += together * stride)
        copy_words<Word, together>(destination + at, source + at, end_of_words - at, stride);
    if (word == 1) return;
    copy_bytes(destination, source, head, me);
    copy_bytes(destination + end_of_words, source + end_of_words, size - end_of_words, me);
}

// Copies one unit of a piece. Units start where the destination is aligned to 16 bytes, so no word is split between two
// units.
FERRY_KERNEL_CODE void copy_unit(const piece &of, u32 unit, u32 unit_shift, const team_member &me) {
    const u64 begin = (of.destination & ~u64{15}) + (u64{unit} << unit_shift);
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

// Pieces in a table, with an index of first units in the parameters.
template <class Table> struct indexed_pieces : Table { const piece_table_parameters &given; };

// Finds the two neighbouring index entries that enclose the unit, and interpolates between them as if all pieces had
// the same size.
template <class Table>
FERRY_KERNEL_CODE u32 find_job(const indexed_pieces<Table> &pieces, const team_work &work, u32 unit) {
    const piece_table_parameters &given = pieces.given;
    if (given.indexed == 0) return find_job(static_cast<const Table &>(pieces), work, unit);
    u32 low = 0, high = given.indexed;
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (given.first_units[middle] <= unit)
            low = middle;
        else
            high = middle;
    }
    const u32 first = low << given.index_shift;
    if (given.index_shift == 0) return first;
    const bool is_last = high == given.indexed;
    const u32 end = is_last ? work.count : high << given.index_shift;
    const u32 units = (is_last ? work.units : given.first_units[high]) - given.first_units[low];
    const u32 guess = first + static_cast<u32>(u64{unit - given.first_units[low]} * (end - first) / units);
    return find_job_from(pieces, first, end, guess, unit);
}

template <class Pieces>
FERRY_KERNEL_CODE void copy_pieces(const team_work &work, const Pieces &pieces, const thread_index &me) {
    do_jobs<piece>(work, pieces, me, [&](const piece &of, u32 unit, const team_member &member) {
        copy_unit(of, unit, work.unit_shift, member);
    });
}

FERRY_KERNEL_CODE void copy_pieces_in_parameters(const piece_parameters &given, const thread_index &me) {
    copy_pieces(given.work, jobs_in_parameters<piece>{given.pieces}, me);
}

FERRY_KERNEL_CODE void copy_pieces_in_table(const piece_table_parameters &given, const thread_index &me) {
    copy_pieces(given.work, indexed_pieces<jobs_in_table<piece>>{{given.table}, given}, me);
}

} // namespace ferry::gpu
