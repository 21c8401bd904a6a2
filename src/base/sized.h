// Reads and writes structs that begin with their size, for callers that were built with an older or newer header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/status.h"

namespace ferry {

// A size below two 32-bit words leaves no space for a field. A size above one page indicates garbage rather than a
// newer header.
constexpr std::uint32_t smallest_size = 8;
constexpr std::uint32_t largest_size = 4096;
constexpr bool plausible_size(std::uint32_t size) noexcept { return size >= smallest_size && size <= largest_size; }

constexpr error abi_mismatch(std::uint32_t size, std::uint64_t known) noexcept {
    const numbers given = size < smallest_size  ? numbers::at_least
                          : size > largest_size ? numbers::at_most
                                                : numbers::known;
    const std::uint64_t limit = size < smallest_size ? smallest_size : size > largest_size ? largest_size : known;
    return {FERRY_ERROR_ABI_MISMATCH, FERRY_SIDE_NONE, FERRY_FIELD_STRUCT_SIZE, given, limit, size};
}

// Fields of `ours` beyond the end of `theirs` keep their defaults. Bytes of `theirs` beyond the end of `ours` must be
// zero.
template <class Struct> error read_sized(const Struct *theirs, Struct &ours) noexcept {
    const std::uint32_t size = theirs->struct_size;
    if (!plausible_size(size)) return abi_mismatch(size, sizeof(Struct));
    const auto *bytes = reinterpret_cast<const unsigned char *>(theirs);
    for (std::size_t i = sizeof(Struct); i < size; ++i)
        if (bytes[i]) return abi_mismatch(size, sizeof(Struct));
    std::memcpy(&ours, theirs, std::min<std::size_t>(size, sizeof(Struct)));
    return {};
}

// Fills `theirs` up to its size, and zeroes the fields that this library does not know.
template <class Struct> error write_sized(const Struct &ours, Struct *theirs) noexcept {
    const std::uint32_t size = theirs->struct_size;
    if (!plausible_size(size)) return abi_mismatch(size, sizeof(Struct));
    std::memset(theirs, 0, size);
    std::memcpy(theirs, &ours, std::min<std::size_t>(size, sizeof(Struct)));
    theirs->struct_size = size;
    return {};
}

} // namespace ferry
