// Many boxes, small and large, in one launch.
#pragma once

#include "kernels/strided.h"
#include "kernels/teams.h"

namespace ferry::kernels {

FERRY_KERNEL_CODE position find(const box &of, u32 window) {
    const u32 row = divide(window, of.by_row);
    const u32 slice = divide(row, of.by_slice);
    return {window - row * of.per_row, row - slice * of.rows_per_slice, slice};
}

template <class Word> FERRY_KERNEL_CODE span span_at(const box &of, u32 window) {
    if (window >= of.windows) return {0, 0, 0};
    const position at = find(of, window);
    return span_of_row<Word>(row_at(of.destination, at), row_at(of.source, at), of.width, at.x);
}

// Fewer than elsewhere: a box takes many registers.
constexpr u32 box_in_flight = 2;

template <class Word> FERRY_KERNEL_CODE void copy_windows(const box &of, u32 begin, u32 end, const team_member &me) {
    FERRY_NOT_UNROLLED
    for (u32 window = begin + me.thread; window < end; window += box_in_flight * me.threads) {
        span spans[box_in_flight];
        FERRY_UNROLLED
        for (u32 i = 0; i < box_in_flight; ++i) {
            const u32 next = window + i * me.threads;
            spans[i] = span_at<Word>(of, next < end ? next : of.windows);
        }
        copy_whole<Word, box_in_flight>(spans);
        FERRY_UNROLLED
        for (u32 i = 0; i < box_in_flight; ++i)
            if (spans[i].size % sizeof(Word) != 0) copy_part(spans[i]);
    }
}

FERRY_KERNEL_CODE void copy_box_unit(const box &of, u32 unit, u32 unit_shift, const team_member &me) {
    const u32 begin = unit << unit_shift;
    const u32 left = of.windows - begin;
    const u32 end = begin + (left < 1u << unit_shift ? left : 1u << unit_shift);
    switch (of.word_shift) {
    case 0:
        return copy_windows<u8>(of, begin, end, me);
    case 1:
        return copy_windows<u16>(of, begin, end, me);
    case 2:
        return copy_windows<u32>(of, begin, end, me);
    case 3:
        return copy_windows<u64>(of, begin, end, me);
    default:
        return copy_windows<sixteen_bytes>(of, begin, end, me);
    }
}

// A box is read where it lies at each unit: to keep it and the next one would take more registers than there are.
struct box_place {
    u32 index, first_unit;
};
template <class Boxes> struct places_of_boxes {
    const Boxes &boxes;

    FERRY_KERNEL_CODE box_place operator[](u32 index) const { return {index, boxes.first_unit(index)}; }
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const { return boxes.first_unit(index); }
};

template <class Boxes>
FERRY_KERNEL_CODE void copy_boxes(const team_work &work, const Boxes &boxes, const thread_index &me) {
    do_jobs<box_place>(work, places_of_boxes<Boxes>{boxes}, me,
                       [&](const box_place &at, u32 unit, const team_member &member) {
                           copy_box_unit(boxes[at.index], unit, work.unit_shift, member);
                       });
}

FERRY_KERNEL_CODE void copy_boxes_in_parameters(const box_parameters &given, const thread_index &me) {
    copy_boxes(given.work, jobs_in_parameters<box>{given.boxes}, me);
}

FERRY_KERNEL_CODE void copy_boxes_in_table(const box_table_parameters &given, const thread_index &me) {
    copy_boxes(given.work, jobs_in_table<box>{given.table}, me);
}

} // namespace ferry::kernels
