#include "copy/nest_packing.h"

#include <algorithm>

#include "base/rounding.h"
#include "base/small_sort.h"

namespace ferry {

namespace {

std::int64_t &stride_at(nest_axis &axis, bool by_source) noexcept {
    return by_source ? axis.source_stride : axis.destination_stride;
}
nest_indices &indices_at(nest_axis &axis, bool by_source) noexcept {
    return by_source ? axis.source_indices : axis.destination_indices;
}

// Whether all coordinates of the axis are the same bytes at the end.
bool repeats(const nest_axis &axis, bool by_source) noexcept {
    const nest_indices &list = by_source ? axis.source_indices : axis.destination_indices;
    return !list.address && (by_source ? axis.source_stride : axis.destination_stride) == 0;
}

// Narrows an end of an axis to some of its coordinates. A single index of a list in host memory becomes part of the
// address.
void narrow_end(std::uint64_t &address, std::int64_t stride, nest_indices &list, std::uint64_t first,
                std::uint64_t count) noexcept {
    const auto step = static_cast<std::uint64_t>(stride);
    if (!list.address) {
        address += step * first;
    } else if (count == 1 && list.is_on_host) {
        address += step * list.at(first);
        list = {};
    } else {
        list.address += list.size() * first;
    }
}

void narrow(nest &of, int index, std::uint64_t first, std::uint64_t count) noexcept {
    nest_axis &axis = of.axis[index];
    narrow_end(of.destination, axis.destination_stride, axis.destination_indices, first, count);
    narrow_end(of.source, axis.source_stride, axis.source_indices, first, count);
    axis.count = count;
}

} // namespace

nest_packing::nest_packing(const nest &of, bool by_source, std::uint64_t max_bytes) noexcept
    : by_source_(by_source), sorted_(of), cut_(of.axes) {
    for (int i = 0; i < sorted_.axes; ++i)
        if (nest_axis &axis = sorted_.axis[i]; !axis.has_indices() && stride_at(axis, by_source) < 0)
            turn(sorted_, axis);
    sort_few(sorted_.axis, sorted_.axis + sorted_.axes, [&](nest_axis &a, nest_axis &b) {
        return magnitude(stride_at(a, by_source)) < magnitude(stride_at(b, by_source));
    });
    std::uint64_t bytes = sorted_.run;
    for (int i = 0; i < sorted_.axes; ++i) {
        const nest_axis &axis = sorted_.axis[i];
        if (repeats(axis, by_source)) continue;
        packed_stride_[i] = bytes;
        const std::uint64_t at_most = std::max<std::uint64_t>(max_bytes / bytes, 1);
        if (axis.count > at_most) {
            cut_ = i;
            at_once_ = at_most;
            return;
        }
        bytes *= axis.count;
    }
}

std::uint64_t nest_packing::steps() const noexcept {
    return cut_ == sorted_.axes ? 1 : divide_up(sorted_.axis[cut_].count, at_once_);
}

std::uint64_t nest_packing::parts() const noexcept {
    std::uint64_t all = steps();
    for (int i = cut_ + 1; i < sorted_.axes; ++i)
        all *= sorted_.axis[i].count;
    return all;
}

std::uint64_t nest_packing::buffer_bytes() const noexcept {
    std::uint64_t bytes = sorted_.run;
    for (int i = 0; i < cut_; ++i)
        if (packed_stride_[i]) bytes *= sorted_.axis[i].count;
    return bytes * at_once_;
}

nest_halves nest_packing::halves_at(const place &where) const noexcept {
    nest part = sorted_;
    for (int i = cut_; i < part.axes; ++i) {
        const std::uint64_t left = part.axis[i].count - where.at[i];
        narrow(part, i, where.at[i], i == cut_ ? std::min(at_once_, left) : 1);
    }
    nest_halves halves = {part, part};
    nest &outer = halves.outer, &inner = halves.inner;
    (by_source_ ? outer.destination : outer.source) = 0;
    (by_source_ ? inner.source : inner.destination) = 0;
    for (int i = 0; i < part.axes; ++i) {
        const auto packed = static_cast<std::int64_t>(packed_stride_[i]);
        stride_at(outer.axis[i], !by_source_) = packed;
        stride_at(inner.axis[i], by_source_) = packed;
        indices_at(outer.axis[i], !by_source_) = {};
        indices_at(inner.axis[i], by_source_) = {};
        if (repeats(part.axis[i], by_source_)) outer.axis[i].count = 1;
    }
    normalize(outer);
    normalize(inner);
    return halves;
}

nest_halves nest_packing::first() const noexcept { return halves_at({}); }

error nest_packing::for_each(function_ref<error(const nest_halves &)> then) const noexcept {
    place where;
    for (;;) {
        if (error failed = then(halves_at(where))) return failed;
        int next = cut_;
        for (; next < sorted_.axes; ++next) {
            where.at[next] += next == cut_ ? at_once_ : 1;
            if (where.at[next] < sorted_.axis[next].count) break;
            where.at[next] = 0;
        }
        if (next >= sorted_.axes) return {};
    }
}

} // namespace ferry
