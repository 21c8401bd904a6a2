// Unsigned arithmetic that remembers whether it ever left 64 bits.
#pragma once

#include <cstdint>

namespace ferry {

class checked {
public:
    constexpr checked(std::uint64_t value) noexcept : value_(value) {}
    constexpr checked operator+(checked other) const noexcept {
        checked sum(0);
        sum.overflowed_ = __builtin_add_overflow(value_, other.value_, &sum.value_) | overflowed_ | other.overflowed_;
        return sum;
    }
    constexpr checked operator*(checked other) const noexcept {
        checked product(0);
        product.overflowed_ =
            __builtin_mul_overflow(value_, other.value_, &product.value_) | overflowed_ | other.overflowed_;
        return product;
    }
    constexpr bool overflowed() const noexcept { return overflowed_; }
    constexpr std::uint64_t value() const noexcept { return value_; }

private:
    std::uint64_t value_;
    bool overflowed_ = false;
};

} // namespace ferry
