// What a descriptor says by itself: its extent, the strides with their defaults filled in, and the bytes each end spans.
// The first half of the checks; nothing here knows what memory lies at the addresses.
#pragma once

#include "base/status.h"
#include "memory/resolve.h"

namespace ferry {

struct copy_limits {
    int device_count = 0;
    std::uint64_t max_pitch = 0; // bytes; the smallest of the devices'
};

struct end_layout {
    bool linear = false; // not an array
    std::uint64_t row_pitch = 0;
    std::uint64_t slice_height = 0;
    address_span span; // linear: the bytes of the copy, origin included
};

struct copy_layout {
    std::uint64_t width = 0, height = 1, depth = 1;
    end_layout source, destination;
    bool empty() const noexcept { return width == 0; }
};

// Refuses what is wrong whatever the memory is. An empty copy is right, whatever its addresses are.
failure lay_out(const ferry_copy_desc &copy, const copy_limits &limits, copy_layout &layout) noexcept;

} // namespace ferry
