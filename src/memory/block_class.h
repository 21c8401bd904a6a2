// The block sizes to which a pool rounds up: steps of 256 bytes up to 2 KiB, then eight steps per power of two. Every
// class of 32 KiB or more is a multiple of 4 KiB. A request for a multiple of 4 KiB always gets such a class.
#pragma once

#include <bit>
#include <cstdint>

namespace ferry {

constexpr std::uint64_t largest_block = std::uint64_t{1} << 47; // the address space of a process
constexpr int block_class_count = 8 * 37;

// `size` is 1 to largest_block bytes.
constexpr int block_class_of(std::uint64_t size) noexcept {
    const std::uint64_t last = size - 1;
    if (last < 2048) return static_cast<int>(last >> 8);
    const int power = static_cast<int>(std::bit_width(last)) - 1; // exponent, at least 11
    return (power - 10) * 8 + static_cast<int>(last >> (power - 3) & 7);
}

constexpr std::uint64_t block_class_size(int block_class) noexcept {
    const int power = block_class / 8, step = block_class % 8;
    return power ? static_cast<std::uint64_t>(9 + step) << (7 + power) : static_cast<std::uint64_t>(1 + step) << 8;
}

static_assert(block_class_of(largest_block) == block_class_count - 1);
static_assert(block_class_size(block_class_count - 1) == largest_block);

} // namespace ferry
