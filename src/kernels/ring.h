// The device's half of a copy from or to pageable memory: see ring_record in parameters.h. A block waits for the host,
// and never for a block that may not be running.
#pragma once

#include "kernels/pieces.h"
#include "kernels/strided.h"

namespace ferry::gpu {

// Enough accesses in flight per thread to saturate the bus to the host with few blocks (H200: 8 blocks, 51 of 55 GB/s).
constexpr u32 in_flight_to_host = 8;

FERRY_KERNEL_CODE u64 after_message(u64 seen) { return (seen & ~u64{0xffffffff}) | static_cast<u32>(seen + 1); }
FERRY_KERNEL_CODE u64 after_door(u64 seen) { return seen + (u64{1} << 32); } // the block enters or leaves

FERRY_KERNEL_CODE u64 place_of_message(u64 mailbox, u64 seen) {
    return mailbox + sizeof(u64) + static_cast<u32>(seen) % messages_at_once * sizeof(ring_message);
}
// Reads a message without waiting for it. The message may not have been published yet.
FERRY_KERNEL_CODE ring_message read_early(u64 mailbox, u64 seen) {
    const u64 message = place_of_message(mailbox, seen);
    return {load_relaxed(message), load_relaxed(message + 8), load_relaxed(message + 16)};
}
FERRY_KERNEL_CODE ring_message read_now(u64 mailbox, u64 seen) {
    const u64 message = place_of_message(mailbox, seen);
    const u64 slot = load_relaxed(message), first = load_relaxed(message + 8);
    return {slot, first, load_acquire(message + 16)};
}
FERRY_KERNEL_CODE bool is_published(const ring_message &read, u64 seen) {
    const u64 mark = ring_mark(static_cast<u32>(seen));
    return (read.slot & 1) == mark && (read.first & 1) == mark && (read.count & 1) == mark;
}

// Waits for the next message and returns it with the slot's address. A count of 0 means that the run is over. `read` is
// the result of the early read of the message.
FERRY_KERNEL_CODE ring_message next_message(u64 record, u64 mailbox, u64 seen, ring_message read) {
    while (!is_published(read, seen)) {
        const u64 ended = load_relaxed(mailbox);
        read = read_now(mailbox, seen);
        if (is_published(read, seen)) break;
        if (ended == ring_aborted) {
            fence_for_host(); // acquires the messages that were published before the abort
            read = read_now(mailbox, seen);
            if (is_published(read, seen)) break;
            trap();
        }
        if (ended != seen >> 33) {
            fence_for_host(); // orders the host threads' writes before the work after this kernel
            return {0, 0, 0};
        }
        pause();
    }
    return {record + static_cast<u64>(static_cast<long long>(read.slot) >> 1), read.first >> 1, read.count >> 1};
}

FERRY_KERNEL_CODE void copy_rows(const ring_parameters &of, const ring_message &message, u32 thread) {
    const u64 slice = divide(message.first, of.over.by_slice);
    const position first = {0, message.first - slice * of.over.rows_per_slice, slice};
    const box_end slot = {message.slot - row_at({0, of.slot.row_pitch, of.slot.slice_pitch}, first), of.slot.row_pitch,
                          of.slot.slice_pitch};
    strided_parameters box = {of.to_device ? of.device : slot, of.to_device ? slot : of.device, of.width, of.over};
    box.over.count = (message.first + message.count) * of.over.per_row;
    const u64 window = message.first * of.over.per_row + thread;
    // The bus is slower than the checks for partial words, so only the most frequent word size has a variant without
    // checks.
    switch (of.word_shift) {
    case 0:
        return copy_windows_from<u8, true>(box, window);
    case 1:
        return copy_windows_from<u16, false>(box, window);
    case 2:
        return copy_windows_from<u32, false>(box, window);
    case 3:
        return copy_windows_from<u64, false>(box, window);
    default:
        return of.is_whole ? copy_windows_from<sixteen_bytes, true>(box, window)
                           : copy_windows_from<sixteen_bytes, false>(box, window);
    }
}

// How the threads of a block copy a chunk: each thread individually, or the block together.
template <class Chunk> struct by_threads {
    static FERRY_KERNEL_CODE void copy(const ring_parameters &of, const ring_message &message,
                                       const block_of_threads &all) {
        by_each(all, [&](const thread_index &me) { Chunk::copy(of, message, me); });
    }
};

struct in_rows {
    static FERRY_KERNEL_CODE void copy(const ring_parameters &of, const ring_message &message, const thread_index &me) {
        copy_rows(of, message, me.thread);
    }
};
struct of_long_rows {
    static FERRY_KERNEL_CODE void copy(const ring_parameters &of, const ring_message &message, const thread_index &me) {
        const u64 destination = of.to_device ? message.first : message.slot;
        u64 source = of.to_device ? message.slot : message.first;
        // A thread only reads back what it has written itself: the windows are the same, because all addresses are
        // equal modulo 16.
        FERRY_NOT_UNROLLED
        for (u32 i = 0; i < of.copies; ++i) {
            copy_run<sixteen_bytes, in_flight_to_host>(destination + of.to[i], source, static_cast<u32>(message.count),
                                                       {me.thread, me.threads});
            source = destination + of.to[0];
        }
    }
};

// ---- Arrays

struct place_in_chunk {
    u32 x, y, z; // in the array: bytes, row, slice
    u64 slot;
};

template <class Word>
FERRY_KERNEL_CODE place_in_chunk find_in_chunk(const ring_parameters &of, const ring_message &message, u64 word) {
    const u64 row = divide(word, of.over.by_row), x = (word - row * of.over.per_row) * sizeof(Word);
    const u64 in_box = (message.first & ((u64{1} << ring_x_shift) - 1)) + row;
    const u64 slice = divide(in_box, of.over.by_slice);
    return {of.x + static_cast<u32>((message.first >> ring_x_shift) + x),
            of.y + static_cast<u32>(in_box - slice * of.over.rows_per_slice), of.z + static_cast<u32>(slice),
            message.slot + row * of.slot.row_pitch + x};
}

// The bus is slower than the array in both directions, so threads traverse rows and ignore the array's tiles. Many
// words that are read over the bus are in flight together. Few are sufficient if words are only written over the bus,
// because loads from an array take less time than the bus needs to transfer them.
template <class Word, bool to_array>
FERRY_KERNEL_CODE void copy_array_words(const ring_parameters &of, const ring_message &message,
                                        const thread_index &me) {
    constexpr u32 together = to_array && sizeof(Word) <= 4 ? in_flight : 2;
    const u64 count = of.by_rows ? message.count * of.over.per_row : message.count / sizeof(Word);
    FERRY_NOT_UNROLLED
    for (u64 first = me.thread; first < count; first += u64{together} * me.threads) {
        place_in_chunk at[together];
        Word words[together];
        FERRY_UNROLLED
        for (u32 i = 0; i < together; ++i) {
            if (first + i * me.threads >= count) break;
            at[i] = find_in_chunk<Word>(of, message, first + i * me.threads);
            words[i] = to_array ? load<Word>(at[i].slot)
                                : read_surface(of.surface, of.form, at[i].x, at[i].y, at[i].z, Word{});
        }
        FERRY_UNROLLED
        for (u32 i = 0; i < together; ++i) {
            if (first + i * me.threads >= count) break;
            if (to_array)
                write_surface(of.surface, of.form, at[i].x, at[i].y, at[i].z, words[i]);
            else
                store(at[i].slot, words[i]);
        }
    }
}

template <bool to_array> struct of_an_array {
    static FERRY_KERNEL_CODE void copy(const ring_parameters &of, const ring_message &message, const thread_index &me) {
        switch (of.word_shift) {
        case 0:
            return copy_array_words<u8, to_array>(of, message, me);
        case 1:
            return copy_array_words<u16, to_array>(of, message, me);
        case 2:
            return copy_array_words<u32, to_array>(of, message, me);
        case 3:
            return copy_array_words<u64, to_array>(of, message, me);
        default:
            return copy_array_words<sixteen_bytes, to_array>(of, message, me);
        }
    }
};

// ---- Many pieces

// Finds the record of a window, starting at record `first`.
FERRY_KERNEL_CODE u32 find_record(const staged_record *records, u32 first, u32 count, u32 window) {
    u32 low = first, high = count;
    FERRY_NOT_UNROLLED
    while (high - low > 1) {
        const u32 middle = low + (high - low) / 2;
        if (records[middle].first_window <= window)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// A window of a piece on the device: its address, and which of its bytes belong to the piece.
struct piece_window {
    u64 address;
    u32 begin, end;

    FERRY_KERNEL_CODE bool is_whole() const { return end - begin == sizeof(sixteen_bytes); }
};
FERRY_KERNEL_CODE piece_window window_of(const staged_record &of, u32 window) {
    const u64 address = (of.device & ~u64{15}) + u64{window - of.first_window} * sizeof(sixteen_bytes);
    const u64 last = of.device + of.size;
    const u32 begin = address < of.device ? static_cast<u32>(of.device - address) : 0;
    const u32 end = last - address < sizeof(sixteen_bytes) ? static_cast<u32>(last - address) : 16;
    return {address, begin, end};
}

// Copies the bytes of a window that belong to the piece, and accesses no other bytes on the device. The slot is
// accessed once, because the access uses the bus.
FERRY_KERNEL_CODE void copy_part(const piece_window &part, u64 slot, bool to_device) {
    const auto belongs = [&](u32 i) { return i >= part.begin && i < part.end; };
    sixteen_bytes word = {0, 0};
    if (to_device) word = load<sixteen_bytes>(slot);
    u8 bytes[sizeof word];
    FERRY_UNROLLED
    for (u32 i = 0; i < sizeof word; ++i) {
        bytes[i] = static_cast<u8>((i < 8 ? word.low : word.high) >> i % 8 * 8);
        if (belongs(i) && !to_device) bytes[i] = load<u8>(part.address + i);
    }
    FERRY_UNROLLED
    for (u32 i = 0; i < sizeof word; ++i) {
        if (belongs(i) && to_device) store(part.address + i, bytes[i]);
        (i < 8 ? word.low : word.high) |= u64{bytes[i]} << i % 8 * 8;
    }
    if (!to_device) store(slot, word);
}

// Copies whole windows first, with their loads in flight together, and then the partial windows, of which a piece has
// at most two.
FERRY_KERNEL_CODE void copy_piece_windows(const staged_record *records, const ring_message &message, bool to_device,
                                          const thread_index &me) {
    const u32 count = static_cast<u32>(message.first), windows = static_cast<u32>(message.count);
    const u64 in_slot = message.slot + count * sizeof(staged_record);
    u32 record = 0;
    FERRY_NOT_UNROLLED
    for (u32 first = me.thread; first < windows; first += in_flight_to_host * me.threads) {
        sixteen_bytes words[in_flight_to_host];
        u64 to[in_flight_to_host];
        u32 parts = 0; // bit i: window i is only partly in the piece
        FERRY_UNROLLED
        for (u32 i = 0; i < in_flight_to_host; ++i) {
            const u32 window = first + i * me.threads;
            to[i] = 0;
            if (window >= windows) continue;
            record = find_record(records, record, count, window);
            const piece_window of = window_of(records[record], window);
            const u64 slot = in_slot + u64{window} * sizeof(sixteen_bytes);
            if (of.is_whole()) {
                words[i] = load<sixteen_bytes>(to_device ? slot : of.address);
                to[i] = to_device ? of.address : slot;
            } else {
                parts |= 1u << i;
            }
        }
        FERRY_UNROLLED
        for (u32 i = 0; i < in_flight_to_host; ++i)
            if (to[i]) store(to[i], words[i]);
        FERRY_NOT_UNROLLED
        for (u32 window = first; parts != 0; parts >>= 1, window += me.threads)
            if (parts & 1)
                copy_part(window_of(records[find_record(records, 0, count, window)], window),
                          in_slot + u64{window} * sizeof(sixteen_bytes), to_device);
    }
}

struct of_pieces {
    static FERRY_KERNEL_CODE void copy(const ring_parameters &of, const ring_message &message,
                                       const block_of_threads &all) {
        const staged_record *const records =
            share_table<staged_record, max_staged_records>(all, message.slot, static_cast<u32>(message.first));
        by_each(all, [&](const thread_index &me) { copy_piece_windows(records, message, of.to_device, me); });
    }
};

// ---- A block

template <class Chunk> FERRY_KERNEL_CODE void copy_by_ring(const ring_parameters &given, const block_of_threads &all) {
    const u32 channel = given.first_block + all.me.block;
    const u64 mailbox = given.record + channel * sizeof(ring_mailbox);
    const u64 seen_at = given.record + sizeof(ring_record::mailboxes) + channel * sizeof(u64);
    const u64 lock = seen_at + sizeof(ring_record::seen);
    u64 seen = once(all, [&] {
        while (given.is_shared && exchange(lock, 1) != 0) {
            if (load_relaxed(mailbox) == ring_aborted) trap(); // the owner of the lock may have trapped
            pause();
        }
        const u64 entered = after_door(load_acquire(seen_at));
        store_relaxed(seen_at, entered);
        return entered;
    });
    const u64 unmarked = ring_mark(static_cast<u32>(seen)) ^ 1;
    ring_message next = {unmarked, unmarked, unmarked};
    for (bool has_moved = false;; has_moved = true) {
        const ring_message message = once(all, [&] {
            if (has_moved) {
                // Releases the block's accesses to its slot, and acquires the message that was read early
                // (docs/kernels.md).
                fence_for_host();
                store_relaxed(seen_at, seen);
            }
            return next_message(given.record, mailbox, seen, next);
        });
        if (message.count == 0) break;
        seen = after_message(seen);
        // The next message has usually been published by now. Reading it during the copy saves a round trip over the
        // bus.
        if (is_first(all)) next = read_early(mailbox, seen);
        Chunk::copy(given, message, all);
    }
    once(all, [&] {
        store_relaxed(seen_at, after_door(seen));
        if (given.is_shared) exchange(lock, 0);
        return 0;
    });
}

} // namespace ferry::gpu
