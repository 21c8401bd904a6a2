// Tests whether source and destination share bytes.
#include "copy/shape.h"

namespace ferry {

namespace {

bool ranges_meet(std::uint64_t a, std::uint64_t b, std::uint64_t extent) noexcept {
    return (a > b ? a - b : b - a) < extent;
}

// Two boxes with the same strides, `distance` bytes apart, share a byte if the distance equals dz slices plus dy rows
// plus dx bytes, where each difference is smaller than the extent. For dz and dy, only the quotient and its successor
// leave a sufficiently small remainder. The box is symmetric, so only the magnitude of the remainder matters.
template <class Meets>
bool meets_near_quotient(std::uint64_t distance, std::uint64_t pitch, std::uint64_t extent, Meets meets) noexcept {
    const std::uint64_t quotient = distance / pitch, rest = distance % pitch;
    return (quotient < extent && meets(rest)) || (quotient + 1 < extent && meets(pitch - rest));
}

[[gnu::noinline]] bool lattices_meet(std::uint64_t distance, const shape &shape, std::uint64_t row_pitch,
                                     std::uint64_t slice_pitch) noexcept {
    const auto meets_in_row = [&](std::uint64_t rest) { return rest < shape.width; };
    const auto meets_in_slice = [&](std::uint64_t rest) {
        return shape.height == 1 ? meets_in_row(rest)
                                 : meets_near_quotient(rest, row_pitch, shape.height, meets_in_row);
    };
    return shape.depth == 1 ? meets_in_slice(distance)
                            : meets_near_quotient(distance, slice_pitch, shape.depth, meets_in_slice);
}

bool linear_ends_overlap(const shape &shape) noexcept {
    const shape_end &a = shape.source, &b = shape.destination;
    if (a.span.last < b.span.first || b.span.last < a.span.first) return false;
    if (shape.is_line()) return true;
    if (a.span.first == b.span.first) return true;
    const std::uint64_t slice_pitch = a.row_pitch * a.slice_height;
    const bool same_rows = a.row_pitch == b.row_pitch || shape.height == 1;
    const bool same_slices = slice_pitch == b.row_pitch * b.slice_height || shape.depth == 1;
    if (!same_rows || !same_slices) return false; // an overlap is not proven
    const std::uint64_t distance =
        a.span.first > b.span.first ? a.span.first - b.span.first : b.span.first - a.span.first;
    return lattices_meet(distance, shape, a.row_pitch, slice_pitch);
}

} // namespace

bool ends_overlap(const shape &shape) noexcept {
    const shape_end &source = shape.source, &destination = shape.destination;
    if (shape.has_file()) return false;
    if (!source.array && !destination.array) return linear_ends_overlap(shape);
    if (source.array != destination.array) return false;
    return ranges_meet(source.x, destination.x, shape.width) && ranges_meet(source.y, destination.y, shape.height) &&
           ranges_meet(source.z, destination.z, shape.depth);
}

} // namespace ferry
