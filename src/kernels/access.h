// The machine as kernels see it: memory by address, surfaces, fences, and a thread's position in its launch. On a GPU,
// an address is a pointer. On the CPU, the software driver looks up the memory at an address, and ends the launch if no
// memory is there.
// In most kernels, threads share nothing and never wait, so the CPU can run them one after another. A kernel whose
// threads share data and wait is written for a whole block.
#pragma once

#include "kernels/parameters.h"

#if defined(__CUDACC__)
#define FERRY_KERNEL_CODE __device__ __forceinline__
#define FERRY_UNROLLED _Pragma("unroll")
#define FERRY_NOT_UNROLLED _Pragma("unroll 1")
#else
#include <cstring>
#include <memory>
#define FERRY_KERNEL_CODE inline
#define FERRY_UNROLLED
#define FERRY_NOT_UNROLLED
#endif

namespace ferry::gpu {

// A thread's position in a one-dimensional launch.
struct thread_index {
    u32 block, thread, blocks, threads;

    FERRY_KERNEL_CODE u64 in_grid() const { return u64{block} * threads + thread; }
};

// A block's position, for a kernel that is written for whole blocks.
struct block_of_threads {
    thread_index me; // the CPU runs a whole block in one call, where me.thread is 0
};

struct alignas(16) sixteen_bytes {
    u64 low, high;
};

#if defined(__CUDACC__)

// Copied data is accessed only once, so these accesses are streaming (.cs: evict first).
FERRY_KERNEL_CODE u8 load(u64 address, u8) { return __ldcs(reinterpret_cast<const unsigned char *>(address)); }
FERRY_KERNEL_CODE u16 load(u64 address, u16) { return __ldcs(reinterpret_cast<const unsigned short *>(address)); }
FERRY_KERNEL_CODE u32 load(u64 address, u32) { return __ldcs(reinterpret_cast<const unsigned *>(address)); }
FERRY_KERNEL_CODE u64 load(u64 address, u64) { return __ldcs(reinterpret_cast<const unsigned long long *>(address)); }
FERRY_KERNEL_CODE sixteen_bytes load(u64 address, sixteen_bytes) {
    const ulonglong2 both = __ldcs(reinterpret_cast<const ulonglong2 *>(address));
    return {both.x, both.y};
}
template <class Word> FERRY_KERNEL_CODE Word load(u64 address) { return load(address, Word{}); }

FERRY_KERNEL_CODE void store(u64 address, u8 word) { __stcs(reinterpret_cast<unsigned char *>(address), word); }
FERRY_KERNEL_CODE void store(u64 address, u16 word) { __stcs(reinterpret_cast<unsigned short *>(address), word); }
FERRY_KERNEL_CODE void store(u64 address, u32 word) { __stcs(reinterpret_cast<unsigned *>(address), word); }
FERRY_KERNEL_CODE void store(u64 address, u64 word) { __stcs(reinterpret_cast<unsigned long long *>(address), word); }
FERRY_KERNEL_CODE void store(u64 address, sixteen_bytes word) {
    __stcs(reinterpret_cast<ulonglong2 *>(address), make_ulonglong2(word.low, word.high));
}

// Many threads read the same table, so these loads use the caches normally.
template <class Record> FERRY_KERNEL_CODE Record read_table(u64 table, u64 index) {
    return reinterpret_cast<const Record *>(table)[index];
}

// x is in bytes. Coordinates outside the array end the launch.
template <class Texels> FERRY_KERNEL_CODE Texels read_texels(u64 surface, array_form form, u32 x, u32 y, u32 z) {
    const int column = static_cast<int>(x), row = static_cast<int>(y), slice = static_cast<int>(z);
    switch (form) {
    case array_form::one_d:
        return surf1Dread<Texels>(surface, column);
    case array_form::two_d:
        return surf2Dread<Texels>(surface, column, row);
    case array_form::three_d:
        return surf3Dread<Texels>(surface, column, row, slice);
    case array_form::layers_of_one_d:
        return surf1DLayeredread<Texels>(surface, column, slice);
    default:
        return surf2DLayeredread<Texels>(surface, column, row, slice);
    }
}
FERRY_KERNEL_CODE u8 read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u8) {
    return read_texels<unsigned char>(surface, form, x, y, z);
}
FERRY_KERNEL_CODE u16 read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u16) {
    return read_texels<unsigned short>(surface, form, x, y, z);
}
FERRY_KERNEL_CODE u32 read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u32) {
    return read_texels<unsigned>(surface, form, x, y, z);
}
FERRY_KERNEL_CODE u64 read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u64) {
    const uint2 both = read_texels<uint2>(surface, form, x, y, z);
    return u64{both.y} << 32 | both.x;
}
FERRY_KERNEL_CODE sixteen_bytes read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, sixteen_bytes) {
    const uint4 all = read_texels<uint4>(surface, form, x, y, z);
    return {u64{all.y} << 32 | all.x, u64{all.w} << 32 | all.z};
}

template <class Texels>
FERRY_KERNEL_CODE void write_texels(u64 surface, array_form form, u32 x, u32 y, u32 z, const Texels &texels) {
    const int column = static_cast<int>(x), row = static_cast<int>(y), slice = static_cast<int>(z);
    switch (form) {
    case array_form::one_d:
        return surf1Dwrite(texels, surface, column);
    case array_form::two_d:
        return surf2Dwrite(texels, surface, column, row);
    case array_form::three_d:
        return surf3Dwrite(texels, surface, column, row, slice);
    case array_form::layers_of_one_d:
        return surf1DLayeredwrite(texels, surface, column, slice);
    default:
        return surf2DLayeredwrite(texels, surface, column, row, slice);
    }
}
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u8 word) {
    write_texels<unsigned char>(surface, form, x, y, z, word);
}
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u16 word) {
    write_texels<unsigned short>(surface, form, x, y, z, word);
}
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u32 word) {
    write_texels<unsigned>(surface, form, x, y, z, word);
}
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u64 word) {
    write_texels(surface, form, x, y, z, make_uint2(static_cast<u32>(word), static_cast<u32>(word >> 32)));
}
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, sixteen_bytes word) {
    write_texels(surface, form, x, y, z,
                 make_uint4(static_cast<u32>(word.low), static_cast<u32>(word.low >> 32), static_cast<u32>(word.high),
                            static_cast<u32>(word.high >> 32)));
}

FERRY_KERNEL_CODE u64 high_half_of_product(u64 a, u64 b) { return __umul64hi(a, b); }

// Accesses to words that the host or another block accesses concurrently. docs/kernels.md derives the fences that they
// need.
FERRY_KERNEL_CODE u64 load_acquire(u64 address) {
    u64 word;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
    return word;
}
// Relaxed: provides no ordering, and the thread waits for the word only when it uses the word.
FERRY_KERNEL_CODE u64 load_relaxed(u64 address) {
    u64 word;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
    return word;
}
FERRY_KERNEL_CODE void store_relaxed(u64 address, u64 word) {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(address), "l"(word) : "memory");
}
// Orders all accesses before the fence before all accesses after it, including for the host. The fence takes
// microseconds.
FERRY_KERNEL_CODE void fence_for_host() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
// Acquires and releases between blocks of the device, but not with the host.
FERRY_KERNEL_CODE u64 exchange(u64 address, u64 word) {
    u64 before;
    asm volatile("atom.acq_rel.gpu.exch.b64 %0, [%1], %2;" : "=l"(before) : "l"(address), "l"(word) : "memory");
    return before;
}
// Adds 1 and returns the previous value. Atomic for all devices; provides no ordering.
FERRY_KERNEL_CODE u64 count_up(u64 address) {
    u64 before;
    asm volatile("atom.relaxed.sys.add.u64 %0, [%1], 1;" : "=l"(before) : "l"(address) : "memory");
    return before;
}
FERRY_KERNEL_CODE void pause() { __nanosleep(100); }
// Ends the launch and breaks its context.
FERRY_KERNEL_CODE void trap() { __trap(); }

FERRY_KERNEL_CODE bool is_first(const block_of_threads &all) { return all.me.thread == 0; }

// All threads of the block must make this call. Thread 0 runs `find`, and all threads return its result.
template <class Find> FERRY_KERNEL_CODE auto once(const block_of_threads &all, const Find &find) {
    __shared__ decltype(find()) found;
    __syncthreads();
    if (all.me.thread == 0) found = find();
    __syncthreads();
    return found;
}
template <class Do> FERRY_KERNEL_CODE void by_each(const block_of_threads &all, const Do &work) { work(all.me); }
// All threads of the block must make this call, and must call once() before the next such call. Returns a table of up
// to `room` records, 16 bytes each, for data that all threads read often. The table is valid until the next such call.
template <class Record, u32 room>
FERRY_KERNEL_CODE const Record *share_table(const block_of_threads &all, u64 table, u32 count) {
    __shared__ sixteen_bytes records[room];
    for (u32 i = all.me.thread; i < count; i += all.me.threads)
        records[i] = load<sixteen_bytes>(table + i * sizeof(Record));
    __syncthreads();
    return reinterpret_cast<const Record *>(records);
}

#else

// Implemented by the software driver, for `size` bytes. An address must be aligned as on a GPU.
const void *memory_to_read(u64 address, u64 size, u64 alignment);
void *memory_to_write(u64 address, u64 size, u64 alignment);
void *find_in_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, u64 size);

// The thread sanitizer checks aligned words in half the time.
template <class Word> FERRY_KERNEL_CODE Word load(u64 address) {
    Word word;
    const auto *const at = static_cast<const char *>(memory_to_read(address, sizeof word, alignof(Word)));
    std::memcpy(&word, std::assume_aligned<alignof(Word)>(at), sizeof word);
    return word;
}
template <class Word> FERRY_KERNEL_CODE void store(u64 address, Word word) {
    auto *const at = static_cast<char *>(memory_to_write(address, sizeof word, alignof(Word)));
    std::memcpy(std::assume_aligned<alignof(Word)>(at), &word, sizeof word);
}
template <class Record> FERRY_KERNEL_CODE Record read_table(u64 table, u64 index) {
    return load<Record>(table + index * sizeof(Record));
}

template <class Word> FERRY_KERNEL_CODE Word read_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, Word) {
    Word word;
    std::memcpy(&word, find_in_surface(surface, form, x, y, z, sizeof word), sizeof word);
    return word;
}
template <class Word>
FERRY_KERNEL_CODE void write_surface(u64 surface, array_form form, u32 x, u32 y, u32 z, Word word) {
    std::memcpy(find_in_surface(surface, form, x, y, z, sizeof word), &word, sizeof word);
}

// Implemented by the software driver: yields the processor for a short time.
void pause();
// Ends the launch and breaks its context.
[[noreturn]] void trap();

// Implemented by the software driver.
u64 load_acquire(u64 address);
void store_release(u64 address, u64 word);
u64 exchange(u64 address, u64 word);
u64 count_up(u64 address);
FERRY_KERNEL_CODE u64 load_relaxed(u64 address) { return load_acquire(address); }
FERRY_KERNEL_CODE void store_relaxed(u64 address, u64 word) { store_release(address, word); }
FERRY_KERNEL_CODE void fence_for_host() {}

FERRY_KERNEL_CODE bool is_first(const block_of_threads &) { return true; }
template <class Find> FERRY_KERNEL_CODE auto once(const block_of_threads &, const Find &find) { return find(); }
template <class Do> FERRY_KERNEL_CODE void by_each(const block_of_threads &all, const Do &work) {
    thread_index one = all.me;
    for (one.thread = 0; one.thread < one.threads; ++one.thread)
        work(one);
}

template <class Record, u32 room>
FERRY_KERNEL_CODE const Record *share_table(const block_of_threads &, u64 table, u32 count) {
    return static_cast<const Record *>(memory_to_read(table, count * sizeof(Record), alignof(Record)));
}

FERRY_KERNEL_CODE u64 high_half_of_product(u64 a, u64 b) {
#if defined(_MSC_VER)
    return __umulh(a, b); // from <intrin.h>
#else
    __extension__ using wide = unsigned __int128;
    return static_cast<u64>(static_cast<wide>(a) * b >> 64);
#endif
}

#endif

template <class Word> FERRY_KERNEL_CODE void move(u64 destination, u64 source) {
    store(destination, load<Word>(source));
}

// Returns n divided by the divisor, exact for every n.
FERRY_KERNEL_CODE u64 divide(u64 n, const divisor &by) {
    const u64 high = high_half_of_product(n, by.multiplier);
    return (high + ((n - high) >> by.shift_before)) >> by.shift_after;
}

// Returns n divided by a divisor, exact for n and divisor below 2^32. `multiplier` is floor((2^64 - 1) / divisor).
FERRY_KERNEL_CODE u32 divide(u32 n, u64 multiplier) {
    return static_cast<u32>(high_half_of_product(u64{n} + 1, multiplier));
}

} // namespace ferry::gpu
