// Fills a box with a pattern.
#pragma once

#include "kernels/strided.h"

namespace ferry::gpu {

// Returns the part of the pattern for `address`, which is aligned to the word.
template <class Word> FERRY_KERNEL_CODE Word pattern_at(const fill_parameters &fill, u64 address) {
    const u64 half = address & 8 ? fill.pattern_high : fill.pattern_low;
    return static_cast<Word>(half >> address % 8 * 8);
}
template <> FERRY_KERNEL_CODE sixteen_bytes pattern_at<sixteen_bytes>(const fill_parameters &fill, u64) {
    return {fill.pattern_low, fill.pattern_high};
}

template <class Word> FERRY_KERNEL_CODE void put(const fill_parameters &fill, u64 address) {
    store(address, pattern_at<Word>(fill, address));
}

FERRY_KERNEL_CODE void fill_part(const fill_parameters &fill, u64 address, u32 size) {
    while (size != 0) {
        u32 filled = 1;
        if (size >= 8 && address % 8 == 0)
            put<u64>(fill, address), filled = 8;
        else if (size >= 4 && address % 4 == 0)
            put<u32>(fill, address), filled = 4;
        else if (size >= 2 && address % 2 == 0)
            put<u16>(fill, address), filled = 2;
        else
            put<u8>(fill, address);
        address += filled;
        size -= filled;
    }
}

template <class Word> FERRY_KERNEL_CODE void fill_box(const fill_parameters &fill, const thread_index &me) {
    position at = find(fill.over, me.in_grid());
    FERRY_NOT_UNROLLED
    for (u64 window = me.in_grid(); window < fill.over.count; window += fill.over.step) {
        const u64 row = row_at(fill.destination, at);
        const span part = span_of_row<Word>(row, row, fill.width, at.x);
        if (part.size == sizeof(Word))
            put<Word>(fill, part.destination);
        else
            fill_part(fill, part.destination, part.size);
        advance(fill.over, at);
    }
}

} // namespace ferry::gpu
