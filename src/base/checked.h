// Unsigned 64-bit arithmetic that notices overflow: the functions return false, except for add_at_most.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace ferry {

// `sum` and `product` may alias an operand.
[[nodiscard]] inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t &sum) noexcept {
    sum = a + b;
    return is_likely(sum >= b);
}

// Returns UINT64_MAX if the sum is greater.
inline std::uint64_t add_at_most(std::uint64_t a, std::uint64_t b) noexcept {
    return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

[[nodiscard]] inline bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t &product) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    return is_likely(!__builtin_mul_overflow(a, b, &product));
#else
    const bool fits = __umulh(a, b) == 0;
    product = a * b;
    return fits;
#endif
}

[[nodiscard]] inline bool multiply_add(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t &sum) noexcept {
    return multiply(a, b, sum) && add(sum, c, sum);
}

} // namespace ferry
