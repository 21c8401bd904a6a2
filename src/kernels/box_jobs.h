// Distributes many boxes, of linear memory or of arrays, over the teams of one launch. Each team processes some of the
// windows.
#pragma once

#include "kernels/strided.h"
#include "kernels/teams.h"

namespace ferry::gpu {

// Less than in_flight, because a box occupies many registers.
constexpr u32 box_in_flight = 2;

template <class Box> FERRY_KERNEL_CODE position find_in_box(const Box &of, u32 window) {
    const u32 row = divide(window, of.by_row);
    const u32 slice = divide(row, of.by_slice);
    return {window - row * of.per_row, row - slice * of.rows_per_slice, slice};
}

// Calls Do::windows<Word>(box, first window of the unit, end of its windows, member).
template <class Do, class Box>
FERRY_KERNEL_CODE void do_box_unit(const Box &of, u32 unit, u32 unit_shift, const team_member &me) {
    const u32 begin = unit << unit_shift;
    const u32 left = of.windows - begin;
    const u32 end = begin + (left < 1u << unit_shift ? left : 1u << unit_shift);
    switch (of.word_shift) {
    case 0:
        return Do::template windows<u8>(of, begin, end, me);
    case 1:
        return Do::template windows<u16>(of, begin, end, me);
    case 2:
        return Do::template windows<u32>(of, begin, end, me);
    case 3:
        return Do::template windows<u64>(of, begin, end, me);
    default:
        return Do::template windows<sixteen_bytes>(of, begin, end, me);
    }
}

// Boxes in the kernel's parameters or in a table. A box is read again for each of its units: keeping the current and
// the next box would need more registers than available.
struct box_place {
    u32 index, first_unit;
};
template <class Parameters> struct places_of_boxes {
    const Parameters &given;

    FERRY_KERNEL_CODE box_place operator[](u32 index) const { return {index, first_unit(index)}; }
    FERRY_KERNEL_CODE u32 first_unit(u32 index) const {
        return given.table ? in_table().first_unit(index) : given.boxes[index].first_unit;
    }
    FERRY_KERNEL_CODE auto box_at(u32 index) const { return given.table ? in_table()[index] : given.boxes[index]; }

private:
    FERRY_KERNEL_CODE auto in_table() const { return table_of(given.boxes[0]); }
    template <class Box> FERRY_KERNEL_CODE jobs_in_table<Box> table_of(const Box &) const { return {given.table}; }
};

template <class Do, class Parameters> FERRY_KERNEL_CODE void do_boxes(const Parameters &given, const thread_index &me) {
    const places_of_boxes<Parameters> places = {given};
    do_jobs<box_place>(given.work, places, me, [&](const box_place &at, u32 unit, const team_member &member) {
        do_box_unit<Do>(places.box_at(at.index), unit, given.work.unit_shift, member);
    });
}

} // namespace ferry::gpu
