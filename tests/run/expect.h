// What programs here check with: each check that fails is printed and counted.
#pragma once

#include <cstddef>
#include <cstdio>
#include <vector>

static int failures = 0;

static inline void expect(int line, const char *what, bool is_true) {
    if (is_true) return;
    std::printf("line %d: %s\n", line, what);
    ++failures;
}
#define EXPECT(condition) expect(__LINE__, #condition, condition)

using bytes = std::vector<unsigned char>;

static inline bytes numbered(std::size_t size, unsigned seed) {
    bytes made(size);
    for (std::size_t i = 0; i < size; ++i)
        made[i] = static_cast<unsigned char>(i * 7 + i / 4096 * 13 + seed);
    return made;
}
