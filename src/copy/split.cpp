#include "copy/split.h"

#include <algorithm>

namespace ferry {

namespace {

struct origin {
    std::uint64_t x, y, z;
};

shape_end begun_at(shape_end end, const origin &at, const extent &size) noexcept {
    const auto offset = [&](const origin &to) { return (to.z * end.slice_height + to.y) * end.row_pitch + to.x; };
    if (end.array) {
        end.x += at.x;
        end.y += at.y;
        end.z += at.z;
    } else {
        end.span.first += offset(at);
        end.span.last = end.span.first + offset({size.width - 1, size.height - 1, size.depth - 1});
    }
    return end;
}

shape part_of(const shape &whole, const origin &at, const extent &size) noexcept {
    shape box = whole;
    box.width = size.width && size.height && size.depth ? size.width : 0;
    if (box.empty()) return box;
    box.source = begun_at(whole.source, at, size);
    box.destination = begun_at(whole.destination, at, size);
    box.height = size.height;
    box.depth = size.depth;
    return box;
}

// Counts, among `count` units that are `length` bytes long and start `stride` bytes apart, how many end before the
// border and how many start before it.
struct units {
    std::uint64_t before, begun;
};

units count_units(std::uint64_t distance, std::uint64_t stride, std::uint64_t length, std::uint64_t count) noexcept {
    return {distance < length ? 0 : std::min(count, (distance - length) / stride + 1),
            std::min(count, (distance - 1) / stride + 1)};
}

} // namespace

cut_shape cut_at_border(const shape &whole, bool at_source, std::uint64_t distance) noexcept {
    const shape_end &end = at_source ? whole.source : whole.destination;
    const std::uint64_t width = whole.width, height = whole.height, depth = whole.depth;
    if (depth > 1) {
        const std::uint64_t stride = end.row_pitch * end.slice_height;
        const auto [before, begun] = count_units(distance, stride, (height - 1) * end.row_pitch + width, depth);
        return {part_of(whole, {}, {width, height, before}),
                part_of(whole, {0, 0, before}, {width, height, begun - before}),
                part_of(whole, {0, 0, begun}, {width, height, depth - begun})};
    }
    if (height > 1) {
        const auto [before, begun] = count_units(distance, end.row_pitch, width, height);
        return {part_of(whole, {}, {width, before, 1}), part_of(whole, {0, before, 0}, {width, begun - before, 1}),
                part_of(whole, {0, begun, 0}, {width, height - begun, 1})};
    }
    return {part_of(whole, {}, {distance, 1, 1}), part_of(whole, {}, {}),
            part_of(whole, {distance, 0, 0}, {width - distance, 1, 1})};
}

error for_each_chunk(const shape &whole, std::uint64_t max_bytes, function_ref<error(const shape &)> run) noexcept {
    const std::uint64_t slice = whole.width * whole.height;
    origin at = {};
    for (std::uint64_t done = 0; done < whole.bytes();) {
        extent size = {std::min(whole.width - at.x, max_bytes), 1, 1};
        if (size.width == whole.width) {
            size.height = std::min(whole.height - at.y, max_bytes / whole.width);
            if (size.height == whole.height) size.depth = std::min(whole.depth - at.z, max_bytes / slice);
        }
        if (error failed = run(part_of(whole, at, size))) return failed;
        done += size.width * size.height * size.depth;
        at = {done % slice % whole.width, done % slice / whole.width, done / slice};
    }
    return {};
}

error for_each_part(const shape &whole, function_ref<std::uint64_t(std::uint64_t)> end_of_piece,
                    function_ref<error(const shape &)> run) noexcept {
    const auto find_border = [&](const shape_end &end, std::uint64_t &distance) noexcept {
        if (end.array || end.file || !is_host(end.kind)) return false;
        const std::uint64_t border = end_of_piece(end.span.first);
        distance = border - end.span.first;
        return border != 0 && border <= end.span.last;
    };
    shape rest = whole;
    for (;;) {
        std::uint64_t distance = 0;
        const bool at_source = find_border(rest.source, distance);
        if (!at_source && !find_border(rest.destination, distance)) return run(rest);
        const cut_shape cut = cut_at_border(rest, at_source, distance);
        for (const shape *const part : {&cut.before, &cut.across})
            if (!part->empty())
                if (error failed = for_each_part(*part, end_of_piece, run)) return failed;
        if (cut.after.empty()) return {};
        rest = cut.after;
    }
}

bool crosses_border(const shape &shape, const host_ranges &ranges) noexcept {
    const auto leaves = [&](const shape_end &end) noexcept {
        if (end.array || !is_host(end.kind)) return false;
        const std::uint64_t border = ranges.end_of_piece(end.span.first);
        return border != 0 && border <= end.span.last;
    };
    return leaves(shape.source) || leaves(shape.destination);
}

} // namespace ferry
