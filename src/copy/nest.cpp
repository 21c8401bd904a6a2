#include "copy/nest.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/small_sort.h"

namespace ferry {

namespace {

// Addresses are modulo 2^64, and so are strides.
std::int64_t multiple(std::int64_t stride, std::uint64_t by) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) * by);
}

bool goes_down(const nest_axis &axis) noexcept {
    return axis.destination_stride < 0 || (axis.destination_stride == 0 && axis.source_stride < 0);
}

void remove(nest &of, int index) noexcept {
    std::copy(of.axis + index + 1, of.axis + of.axes, of.axis + index);
    --of.axes;
}

// The coordinates of `outer` continue the coordinates of `inner`.
bool continues(const nest_axis &inner, const nest_axis &outer) noexcept {
    if (inner.has_indices() || outer.has_indices()) return false;
    return outer.destination_stride == multiple(inner.destination_stride, inner.count) &&
           outer.source_stride == multiple(inner.source_stride, inner.count);
}

bool join_two(nest &of) noexcept {
    for (int outer = 0; outer < of.axes; ++outer) {
        nest_axis &axis = of.axis[outer];
        const auto run = static_cast<std::int64_t>(of.run);
        if (!axis.has_indices() && axis.destination_stride == run && axis.source_stride == run) {
            of.run *= axis.count;
            remove(of, outer);
            return true;
        }
        for (int inner = 0; inner < of.axes; ++inner) {
            if (inner == outer || !continues(of.axis[inner], axis)) continue;
            of.axis[inner].count *= axis.count;
            remove(of, outer);
            return true;
        }
    }
    return false;
}

} // namespace

std::uint64_t nest_indices::at(std::uint64_t coordinate) const noexcept {
    const auto *const list = reinterpret_cast<const std::byte *>(static_cast<std::uintptr_t>(address));
    if (is_wide) {
        std::uint64_t index = 0;
        std::memcpy(&index, list + coordinate * sizeof index, sizeof index);
        return index;
    }
    std::uint32_t index = 0;
    std::memcpy(&index, list + coordinate * sizeof index, sizeof index);
    return index;
}

bool nest_axis::has_device_indices() const noexcept {
    const auto is_on_device = [](const nest_indices &list) noexcept { return list.address && !list.is_on_host; };
    return is_on_device(destination_indices) || is_on_device(source_indices);
}

bool nest::is_empty() const noexcept {
    return run == 0 || std::any_of(axis, axis + axes, [](const nest_axis &one) { return one.count == 0; });
}

std::uint64_t nest::bytes() const noexcept {
    std::uint64_t all = run;
    for (int i = 0; i < axes; ++i)
        all *= axis[i].count;
    return all;
}

void turn(nest &of, nest_axis &axis) noexcept {
    of.destination += static_cast<std::uint64_t>(axis.destination_stride) * (axis.count - 1);
    of.source += static_cast<std::uint64_t>(axis.source_stride) * (axis.count - 1);
    axis.destination_stride = multiple(axis.destination_stride, UINT64_MAX);
    axis.source_stride = multiple(axis.source_stride, UINT64_MAX);
}

void normalize(nest &of) noexcept {
    for (int i = of.axes; i-- > 0;) {
        nest_axis &axis = of.axis[i];
        if (axis.has_indices()) continue;
        if (axis.count == 1)
            remove(of, i);
        else if (goes_down(axis))
            turn(of, axis);
    }
    while (join_two(of)) {
    }
    sort_few(of.axis, of.axis + of.axes, [](const nest_axis &a, const nest_axis &b) {
        const std::uint64_t to_a = magnitude(a.destination_stride), to_b = magnitude(b.destination_stride);
        return to_a != to_b ? to_a < to_b : magnitude(a.source_stride) < magnitude(b.source_stride);
    });
}

} // namespace ferry
