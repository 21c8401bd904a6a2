// A 64-bit FNV-1a hash, which detects damage but not forgery.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry {

inline std::uint64_t hash_of(const void *bytes, std::size_t size, std::uint64_t seed = 0) noexcept {
    std::uint64_t hash = 0xcbf2'9ce4'8422'2325 ^ seed;
    for (std::size_t i = 0; i < size; ++i)
        hash = (hash ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100'0000'01b3;
    return hash;
}

} // namespace ferry
