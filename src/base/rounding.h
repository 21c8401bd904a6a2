// Rounds up to whole units. The sum of the number and the unit must fit 64 bits.
#pragma once

#include <cstdint>

namespace ferry {

constexpr std::uint64_t divide_up(std::uint64_t number, std::uint64_t by) noexcept { return (number + by - 1) / by; }
constexpr std::uint64_t round_up(std::uint64_t number, std::uint64_t unit) noexcept {
    return divide_up(number, unit) * unit;
}

} // namespace ferry
