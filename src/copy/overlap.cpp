#include "copy/overlap.h"

#include <algorithm>

namespace ferry {

namespace {

bool ranges_meet(std::uint64_t a, std::uint64_t b, std::uint64_t extent) noexcept {
    return (a > b ? a - b : b - a) < extent;
}

// Two boxes of one grid, `distance` bytes apart, share a byte if the distance is dz slices, dy rows and dx bytes with
// each difference below the extent. Of dz and dy only the quotient and the one after it leave a small enough remainder.
bool lattices_meet(std::uint64_t distance, const copy_layout &copy, std::uint64_t row_pitch,
                   std::uint64_t slice_pitch) noexcept {
    using wide = __int128;
    const auto meets_in_row = [&](wide rest) { return (rest < 0 ? -rest : rest) < static_cast<wide>(copy.width); };
    const auto meets_in_slice = [&](wide rest) {
        if (copy.height == 1) return meets_in_row(rest);
        if (rest < 0) rest = -rest; // the box is symmetric
        const wide quotient = rest / row_pitch;
        for (wide rows = quotient; rows <= quotient + 1 && rows < static_cast<wide>(copy.height); ++rows)
            if (meets_in_row(rest - rows * row_pitch)) return true;
        return false;
    };
    if (copy.depth == 1) return meets_in_slice(distance);
    const wide quotient = distance / slice_pitch;
    for (wide slices = quotient; slices <= quotient + 1 && slices < static_cast<wide>(copy.depth); ++slices)
        if (meets_in_slice(static_cast<wide>(distance) - slices * slice_pitch)) return true;
    return false;
}

bool linear_ends_overlap(const copy_layout &copy) noexcept {
    const end_layout &a = copy.source, &b = copy.destination;
    if (a.span.last < b.span.first || b.span.last < a.span.first) return false;
    if (copy.height == 1 && copy.depth == 1) return true;
    if (a.span.first == b.span.first) return true;
    const bool same_rows = a.row_pitch == b.row_pitch || copy.height == 1;
    const std::uint64_t slice_pitch_a = a.row_pitch * a.slice_height, slice_pitch_b = b.row_pitch * b.slice_height;
    const bool same_slices = copy.depth == 1 || slice_pitch_a == slice_pitch_b;
    if (!same_rows || !same_slices) return false; // not proven
    const std::uint64_t distance = a.span.first > b.span.first ? a.span.first - b.span.first : b.span.first - a.span.first;
    return lattices_meet(distance, copy, a.row_pitch, slice_pitch_a);
}

} // namespace

bool ends_overlap(const ferry_copy_desc &copy, const copy_layout &layout) noexcept {
    if (layout.source.linear && layout.destination.linear) return linear_ends_overlap(layout);
    if (layout.source.linear || layout.destination.linear || copy.source.array != copy.destination.array) return false;
    return ranges_meet(copy.source.x, copy.destination.x, layout.width) &&
           ranges_meet(copy.source.y, copy.destination.y, layout.height) &&
           ranges_meet(copy.source.z, copy.destination.z, layout.depth);
}

} // namespace ferry
