// Unsigned 64-bit arithmetic that returns false on overflow.
#pragma once

#include <cstdint>

namespace ferry {

[[nodiscard]] inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t &sum) noexcept {
    return __builtin_expect(!__builtin_add_overflow(a, b, &sum), true);
}

[[nodiscard]] inline bool multiply_add(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t &sum) noexcept {
    return __builtin_expect(!__builtin_mul_overflow(a, b, &sum) && !__builtin_add_overflow(sum, c, &sum), true);
}

} // namespace ferry
