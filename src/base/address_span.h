// The part of memory that a copy touches.
#pragma once

#include <cstdint>

namespace ferry {

// The addresses of the first and the last byte that a copy touches at a linear place.
struct address_span {
    std::uint64_t first;
    std::uint64_t last;
};

} // namespace ferry
