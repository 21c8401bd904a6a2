// Copies a box of linear memory: rows and slices with any pitch, width and alignment.
#pragma once

#include "kernels/access.h"

namespace ferry::gpu {

// Bytes within one word. Source and destination have the same alignment modulo the word.
struct span {
    u64 destination, source;
    u32 size; // 0: nothing
};

// Returns the part of the window at destination `at` that is within [first, end).
template <class Word> FERRY_KERNEL_CODE span clip(u64 at, u64 first, u64 end, u64 source_of_first) {
    const u64 from = at < first ? first : at;
    const u64 to = end - at < sizeof(Word) ? end : at + sizeof(Word);
    if (at >= end || from >= to) return {0, 0, 0};
    return {from, source_of_first + (from - first), static_cast<u32>(to - from)};
}

// Copies less than a word, with the widest accesses that its alignment and size permit.
FERRY_KERNEL_CODE void copy_part(span part) {
    while (part.size != 0) {
        const u64 places = part.destination | part.source;
        u32 moved = 1;
        if (part.size >= 8 && places % 8 == 0)
            move<u64>(part.destination, part.source), moved = 8;
        else if (part.size >= 4 && places % 4 == 0)
            move<u32>(part.destination, part.source), moved = 4;
        else if (part.size >= 2 && places % 2 == 0)
            move<u16>(part.destination, part.source), moved = 2;
        else
            move<u8>(part.destination, part.source);
        part.destination += moved;
        part.source += moved;
        part.size -= moved;
    }
}

// Copies the spans that are whole words. All loads precede the first store, so that they are in flight together.
template <class Word, u32 count> FERRY_KERNEL_CODE void copy_whole(const span (&spans)[count]) {
    Word words[count];
    FERRY_UNROLLED
    for (u32 i = 0; i < count; ++i)
        if (spans[i].size == sizeof(Word)) words[i] = load<Word>(spans[i].source);
    FERRY_UNROLLED
    for (u32 i = 0; i < count; ++i)
        if (spans[i].size == sizeof(Word)) store(spans[i].destination, words[i]);
}

struct position {
    u64 x, y, z; // window, row, slice
};

FERRY_KERNEL_CODE position find(const windows &over, u64 window) {
    const u64 row = divide(window, over.by_row);
    const u64 slice = divide(row, over.by_slice);
    return {window - row * over.per_row, row - slice * over.rows_per_slice, slice};
}

// Advances to the thread's next window without a division.
FERRY_KERNEL_CODE void advance(const windows &over, position &at) {
    at.x += over.step_x;
    at.y += over.step_y;
    at.z += over.step_z;
    if (at.x >= over.per_row) at.x -= over.per_row, ++at.y;
    if (at.y >= over.rows_per_slice) at.y -= over.rows_per_slice, ++at.z;
}

FERRY_KERNEL_CODE u64 row_at(const box_end &end, const position &at) {
    return end.address + at.z * end.slice_pitch + at.y * end.row_pitch;
}

// Returns window x of a row of `width` bytes that starts at `destination` and `source`.
template <class Word> FERRY_KERNEL_CODE span span_of_row(u64 destination, u64 source, u64 width, u64 x) {
    const u64 aligned = destination & ~u64{sizeof(Word) - 1};
    return clip<Word>(aligned + x * sizeof(Word), destination, destination + width, source);
}

// `whole`: every window is completely inside its row.
template <class Word, bool whole> FERRY_KERNEL_CODE span span_at(const strided_parameters &box, const position &at) {
    const u64 destination = row_at(box.destination, at), source = row_at(box.source, at);
    if (!whole) return span_of_row<Word>(destination, source, box.width, at.x);
    return {destination + at.x * sizeof(Word), source + at.x * sizeof(Word), sizeof(Word)};
}

// Of the last in_flight windows, copies the windows that are not whole words. They are rare, so they are recomputed
// instead of kept in registers.
template <class Word> FERRY_KERNEL_CODE void copy_parts(const strided_parameters &box, u64 window, position at) {
    FERRY_NOT_UNROLLED
    for (u32 i = 0; i < in_flight && window < box.over.count; ++i) {
        const span part = span_at<Word, false>(box, at);
        if (part.size < sizeof(Word)) copy_part(part);
        window += box.over.step;
        advance(box.over, at);
    }
}

// Copies `window` and the following windows at the box's step.
template <class Word, bool whole> FERRY_KERNEL_CODE void copy_windows_from(const strided_parameters &box, u64 window) {
    position at = find(box.over, window);
    while (window < box.over.count) {
        const u64 begun = window;
        const position begun_at = at;
        bool has_parts = false;
        span spans[in_flight];
        FERRY_UNROLLED
        for (u32 i = 0; i < in_flight; ++i) {
            spans[i] = span_at<Word, whole>(box, at);
            if (window >= box.over.count) spans[i].size = 0;
            has_parts |= spans[i].size % sizeof(Word) != 0;
            window += box.over.step;
            advance(box.over, at);
        }
        copy_whole<Word, in_flight>(spans);
        if (!whole && has_parts) copy_parts<Word>(box, begun, begun_at);
    }
}

template <class Word, bool whole>
FERRY_KERNEL_CODE void copy_strided(const strided_parameters &box, const thread_index &me) {
    copy_windows_from<Word, whole>(box, me.in_grid());
}

} // namespace ferry::gpu
