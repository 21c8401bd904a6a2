#include "system/streaming_stores.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#endif

namespace ferry {

namespace {

constexpr std::uint64_t line = 64;

// stream_line() copies one line. `to` must be a multiple of the line size.
#if defined(__SSE2__)
constexpr bool has_streaming_stores = true;

void stream_line(std::byte *to, const std::byte *from) noexcept {
    __m128i words[4];
    for (int i = 0; i < 4; ++i)
        words[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(from) + i);
    for (int i = 0; i < 4; ++i)
        _mm_stream_si128(reinterpret_cast<__m128i *>(to) + i, words[i]);
}
#elif defined(__aarch64__) && defined(__GNUC__)
constexpr bool has_streaming_stores = true;

// Not measured.
void stream_line(std::byte *to, const std::byte *from) noexcept {
    asm volatile("ldp q0, q1, [%[from]]\n\t"
                 "ldp q2, q3, [%[from], #32]\n\t"
                 "stnp q0, q1, [%[to]]\n\t"
                 "stnp q2, q3, [%[to], #32]"
                 :
                 : [to] "r"(to), [from] "r"(from)
                 : "v0", "v1", "v2", "v3", "memory");
}
#else
constexpr bool has_streaming_stores = false;

void stream_line(std::byte *, const std::byte *) noexcept {}
#endif

void stream_lines(std::byte *to, const std::byte *from, std::uint64_t count) noexcept {
    for (; count != 0; --count, to += line, from += line)
        stream_line(to, from);
}

// Linux only: no other system was measured, and MinGW does not keep the stack aligned. Processors before the Xeons of
// 2023 were not measured.
#if defined(__x86_64__) && defined(__linux__)
// Whether the processor has AVX-512 and the system saves its registers.
[[gnu::cold]] bool find_whole_lines() noexcept {
    constexpr unsigned osxsave = 1U << 27, avx512f = 1U << 16, states = 0xe6;
    unsigned a = 0, b = 0, c = 0, d = 0, low = 0, high = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave)) return false;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)); // volatile: traps unless the test above comes first
    return (low & states) == states && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & avx512f);
}

__attribute__((target("avx512f"))) void stream_whole_lines(std::byte *to, const std::byte *from,
                                                           std::uint64_t count) noexcept {
    for (; count != 0; --count, to += line, from += line)
        _mm512_stream_si512(reinterpret_cast<__m512i *>(to), _mm512_loadu_si512(from));
}
#else
bool find_whole_lines() noexcept { return false; }

void stream_whole_lines(std::byte *, const std::byte *, std::uint64_t) noexcept {}
#endif

} // namespace

bool has_whole_lines() noexcept {
    enum : int { unknown, no, yes };
    static std::atomic<int> known = unknown; // CPUID takes microseconds on virtual machines
    int found = known.load(std::memory_order_relaxed);
    if (found == unknown) known.store(found = find_whole_lines() ? yes : no, std::memory_order_relaxed);
    return found == yes;
}

void stream_bytes(std::byte *to, const std::byte *from, std::uint64_t size, bool by_whole_lines) noexcept {
    if constexpr (has_streaming_stores) {
        const std::uint64_t head = std::min<std::uint64_t>(-reinterpret_cast<std::uintptr_t>(to) % line, size);
        std::memcpy(to, from, head);
        to += head, from += head, size -= head;
        const std::uint64_t count = size / line, bytes = count * line;
        by_whole_lines ? stream_whole_lines(to, from, count) : stream_lines(to, from, count);
        to += bytes, from += bytes, size -= bytes;
    }
    std::memcpy(to, from, size);
}

void end_streaming() noexcept {
#if defined(__SSE2__)
    _mm_sfence();
#endif
    // On Arm, a release orders these stores like any other stores (Arm's architecture relaxes only the order of ldnp).
}

} // namespace ferry
