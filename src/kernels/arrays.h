// Boxes of arrays into linear memory: as raw bytes through surfaces, many in one launch. The other way round the
// driver's own copy is the faster one.
#pragma once

#include "kernels/box_jobs.h"

namespace ferry::kernels {

struct read_arrays {
    template <class Word>
    static FERRY_KERNEL_CODE void windows(const array_box &of, u32 begin, u32 end, const team_member &me) {
        FERRY_NOT_UNROLLED
        for (u32 window = begin + me.thread; window < end; window += box_in_flight * me.threads) {
            Word words[box_in_flight];
            FERRY_UNROLLED
            for (u32 i = 0; i < box_in_flight; ++i) {
                const u32 next = window + i * me.threads;
                if (next < end) words[i] = read<Word>(of, find_in_box(of, next));
            }
            FERRY_UNROLLED
            for (u32 i = 0; i < box_in_flight; ++i) {
                const u32 next = window + i * me.threads;
                if (next >= end) continue;
                const position at = find_in_box(of, next);
                store(row_at(of.destination, at) + at.x * sizeof(Word), words[i]);
            }
        }
    }

    template <class Word> static FERRY_KERNEL_CODE Word read(const array_box &of, const position &at) {
        return read_surface(of.surface, of.form, of.x + static_cast<u32>(at.x * sizeof(Word)),
                            of.y + static_cast<u32>(at.y), of.z + static_cast<u32>(at.z), Word{});
    }
};

} // namespace ferry::kernels
