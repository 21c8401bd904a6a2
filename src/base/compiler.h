// Hides differences between compilers: branch hints, and arithmetic wider than 64 bits.
#pragma once

#include <cstdint>

#if defined(_MSC_VER)
#include <intrin.h>
#endif

namespace ferry {

// Returns `condition`, and marks the branch that depends on it as likely.
constexpr bool is_likely(bool condition) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    return __builtin_expect(condition, true);
#else
    return condition;
#endif
}
constexpr bool is_unlikely(bool condition) noexcept { return !is_likely(!condition); }

// Returns floor(high * 2^64 / by). `high` must be less than `by`.
inline std::uint64_t divide_high(std::uint64_t high, std::uint64_t by) noexcept {
#if defined(_MSC_VER) && defined(_M_X64) && !defined(__clang__)
    std::uint64_t rest = 0;
    return _udiv128(high, 0, by, &rest);
#elif defined(__SIZEOF_INT128__) && !defined(_MSC_VER)
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((wide{high} << 64) / by);
#else
    std::uint64_t quotient = 0;
    for (int bit = 0; bit < 64; ++bit) {
        const bool is_carried = high >> 63;
        high <<= 1;
        const bool fits = is_carried || high >= by;
        if (fits) high -= by;
        quotient = quotient << 1 | fits;
    }
    return quotient;
#endif
}

} // namespace ferry
