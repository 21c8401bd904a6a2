// What programs here check with: each check that fails is printed and counted.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

static int failures = 0;

static inline void expect(int line, const char *what, bool is_true) {
    if (is_true) return;
    std::printf("line %d: %s\n", line, what);
    ++failures;
}
#define EXPECT(condition) expect(__LINE__, #condition, condition)

using bytes = std::vector<unsigned char>;

// The bytes repeat after 1 MiB. The rest is copied, because test code is not optimised.
static inline bytes numbered(std::size_t size, unsigned seed) {
    constexpr std::size_t period = std::size_t{1} << 20;
    bytes made(size);
    for (std::size_t i = 0; i < size && i < period; ++i)
        made[i] = static_cast<unsigned char>(i * 7 + i / 4096 * 13 + seed);
    for (std::size_t i = period; i < size; i += period)
        std::memcpy(made.data() + i, made.data(), size - i < period ? size - i : period);
    return made;
}
