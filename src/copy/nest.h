// A copy between two layouts: a run of bytes and axes with strides at either end. Axes are sorted and joined here, so
// that every nest of the same bytes has the same form. Pure.
#pragma once

#include <cstdint>

namespace ferry {

constexpr int max_nest_axes = 6;

// The size of a stride without its direction.
constexpr std::uint64_t magnitude(std::int64_t stride) noexcept {
    const auto bits = static_cast<std::uint64_t>(stride);
    return stride < 0 ? 0 - bits : bits;
}

// A list of indices, by which a stride is multiplied.
struct nest_indices {
    std::uint64_t address = 0; // 0: no list
    std::uint64_t limit = 0;   // indices are smaller
    bool is_wide = false;      // 64 bits instead of 32
    bool is_on_host = false;   // the list is in host memory, and its indices are known to be smaller

    std::uint64_t size() const noexcept { return is_wide ? sizeof(std::uint64_t) : sizeof(std::uint32_t); }
    // The index at a coordinate, for a list on the host.
    std::uint64_t at(std::uint64_t coordinate) const noexcept;
};

struct nest_axis {
    std::uint64_t count;
    std::int64_t destination_stride, source_stride; // bytes
    nest_indices destination_indices = {}, source_indices = {};

    bool has_indices() const noexcept { return destination_indices.address || source_indices.address; }
    bool has_device_indices() const noexcept;
};

struct nest {
    std::uint64_t destination = 0, source = 0; // addresses of the first run
    std::uint64_t run = 0;                     // bytes
    int axes = 0;
    nest_axis axis[max_nest_axes] = {};

    void add(const nest_axis &one) noexcept { axis[axes++] = one; }
    bool is_empty() const noexcept;
    std::uint64_t bytes() const noexcept;
};

// Reverses an axis without indices: its first run becomes its last.
void turn(nest &of, nest_axis &axis) noexcept;

// Removes axes of one coordinate, joins axes that are one axis at both ends, and joins axes to the run. The remaining
// axes are sorted by their strides at the destination, the smallest first, and run upwards there unless they have
// indices.
void normalize(nest &of) noexcept;

} // namespace ferry
