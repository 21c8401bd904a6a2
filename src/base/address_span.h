// The part of memory that a copy touches.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ferry {

// The addresses of the first and the last byte of linear memory that a copy touches.
struct address_span {
    std::uint64_t first;
    std::uint64_t last;
};

// The rows of a box in linear memory, in ascending order without overlap.
struct row_layout {
    std::uint64_t first; // the address of the first byte
    std::uint64_t width; // bytes
    std::uint64_t height, row_pitch;
    std::uint64_t depth, slice_pitch;

    // Returns whether a row has bytes in `range`.
    bool touches(const address_span &range) const noexcept {
        if (range.last < first) return false;
        // The last row that starts at or before the end of the range is also the row that ends last.
        std::uint64_t start = first;
        const auto advance = [&](std::uint64_t count, std::uint64_t pitch) noexcept {
            if (count > 1 && pitch) start += std::min(count - 1, (range.last - start) / pitch) * pitch;
        };
        advance(depth, slice_pitch);
        advance(height, row_pitch);
        return start + (width - 1) >= range.first;
    }
};

} // namespace ferry
