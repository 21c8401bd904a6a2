// Copies many boxes of linear memory, small and large, in one launch.
#pragma once

#include "kernels/box_jobs.h"

namespace ferry::gpu {

template <class Word> FERRY_KERNEL_CODE span span_at(const box &of, u32 window) {
    if (window >= of.windows) return {0, 0, 0};
    const position at = find_in_box(of, window);
    return span_of_row<Word>(row_at(of.destination, at), row_at(of.source, at), of.width, at.x);
}

struct copy_boxes {
    template <class Word>
    static FERRY_KERNEL_CODE void windows(const box &of, u32 begin, u32 end, const team_member &me) {
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
};

} // namespace ferry::gpu
