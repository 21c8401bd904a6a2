// Unsigned 64-bit arithmetic that returns false on overflow.
#pragma once

#include <cstdint>

#include "base/compiler.h"

namespace ferry {

// `sum` and `product` may alias an operand.
[[nodiscard]] inline bool add(std::uint64_t a, std::uint64_t b, std::uint64_t &sum) noexcept {
    sum = a + b;
    return is_likely(sum >= b);
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
