// The device's half of a copy over the host links of several devices: see link_parameters in parameters.h. A block
// waits only for chunks that running blocks have claimed.
#pragma once

#include "kernels/pieces.h"
#include "kernels/ring.h"

namespace ferry::gpu {

struct link_chunk {
    u64 destination, source, size; // size 0: all chunks are claimed
};

FERRY_KERNEL_CODE link_chunk chunk_at(const link_parameters &of, u64 index) {
    if (index >= of.chunks) return {0, 0, 0};
    const u64 row = index / of.per_row, x = (index - row * of.per_row) * of.chunk_size;
    const u64 slice = row / of.height;
    const position at = {0, row - slice * of.height, slice};
    const u64 left = of.width - x;
    return {row_at(of.destination, at) + x, row_at(of.source, at) + x, left < of.chunk_size ? left : of.chunk_size};
}

FERRY_KERNEL_CODE u64 claim(const link_parameters &of) { return count_up(of.counters) - of.claimed; }

// A block that sees no progress for too long traps: the context of a helper has died after claiming a chunk, and the
// stream must not report success.
FERRY_KERNEL_CODE void wait_for_all(const link_parameters &of) {
    const u64 complete = of.counters + sizeof(u64);
    u64 seen = 0, looks = 0;
    for (;;) {
        const u64 now = load_acquire(complete) - of.complete;
        if (now == of.chunks) return;
        looks = now == seen ? looks + 1 : 0;
        seen = now;
        if (looks > of.patience) trap();
        pause();
    }
}

FERRY_KERNEL_CODE void copy_over_links(const link_parameters &of, const block_of_threads &all) {
    const u64 complete = of.counters + sizeof(u64);
    link_chunk chunk = once(all, [&] { return chunk_at(of, claim(of)); });
    while (chunk.size != 0) {
        // The next claim is in flight during the copy, because it takes a round trip to the owner's device.
        const u64 next = is_first(all) ? claim(of) : 0;
        by_each(all, [&](const thread_index &me) {
            copy_run<sixteen_bytes, in_flight_to_host>(chunk.destination, chunk.source, static_cast<u32>(chunk.size),
                                                       {me.thread, me.threads});
        });
        chunk = once(all, [&] {
            fence_for_host(); // releases the block's writes
            count_up(complete);
            return chunk_at(of, next);
        });
    }
    once(all, [&] {
        if (of.is_owner && all.me.block == 0) wait_for_all(of);
        const u64 left = count_up(complete + sizeof(u64) + of.link * sizeof(u64)) + 1 - of.left;
        if (left == all.me.blocks) store_relaxed(of.passed, of.number);
        return 0;
    });
}

} // namespace ferry::gpu
