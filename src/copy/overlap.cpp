// Whether source and destination share bytes.
#include "copy/shape.h"

namespace ferry {

namespace {

bool ranges_meet(std::uint64_t a, std::uint64_t b, std::uint64_t extent) noexcept {
    return (a > b ? a - b : b - a) < extent;
}

// Two boxes of one grid, `distance` bytes apart, share a byte if the distance is dz slices, dy rows and dx bytes with
// each difference below the extent. Of dz and dy only the quotient and the one after it leave a small enough remainder.
[[gnu::noinline]] bool lattices_meet(std::uint64_t distance, const shape &shape, std::uint64_t row_pitch,
                                     std::uint64_t slice_pitch) noexcept {
    using wide = __int128;
    const auto meets_in_row = [&](wide rest) { return (rest < 0 ? -rest : rest) < static_cast<wide>(shape.width); };
    const auto meets_in_slice = [&](wide rest) {
        if (shape.height == 1) return meets_in_row(rest);
        if (rest < 0) rest = -rest; // the box is symmetric
        const wide quotient = rest / row_pitch;
        for (wide rows = quotient; rows <= quotient + 1 && rows < static_cast<wide>(shape.height); ++rows)
            if (meets_in_row(rest - rows * row_pitch)) return true;
        return false;
    };
    if (shape.depth == 1) return meets_in_slice(distance);
    const wide quotient = distance / slice_pitch;
    for (wide slices = quotient; slices <= quotient + 1 && slices < static_cast<wide>(shape.depth); ++slices)
        if (meets_in_slice(static_cast<wide>(distance) - slices * slice_pitch)) return true;
    return false;
}

bool linear_ends_overlap(const shape &shape) noexcept {
    const shape_end &a = shape.source, &b = shape.destination;
    if (a.span.last < b.span.first || b.span.last < a.span.first) return false;
    if (shape.is_line()) return true;
    if (a.span.first == b.span.first) return true;
    const std::uint64_t slice_pitch = a.row_pitch * a.slice_height;
    const bool same_rows = a.row_pitch == b.row_pitch || shape.height == 1;
    const bool same_slices = slice_pitch == b.row_pitch * b.slice_height || shape.depth == 1;
    if (!same_rows || !same_slices) return false; // not proven
    const std::uint64_t distance =
        a.span.first > b.span.first ? a.span.first - b.span.first : b.span.first - a.span.first;
    return lattices_meet(distance, shape, a.row_pitch, slice_pitch);
}

} // namespace

bool ends_overlap(const shape &shape) noexcept {
    const shape_end &source = shape.source, &destination = shape.destination;
    if (!source.array && !destination.array) return linear_ends_overlap(shape);
    if (source.array != destination.array) return false;
    return ranges_meet(source.x, destination.x, shape.width) && ranges_meet(source.y, destination.y, shape.height) &&
           ranges_meet(source.z, destination.z, shape.depth);
}

} // namespace ferry
