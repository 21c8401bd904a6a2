#include "copy/batch.h"

#include <algorithm>
#include <tuple>

#include "base/checked.h"

namespace ferry {

bool grouped_pieces::sort(const known_ranges &ranges) noexcept {
    std::size_t begin = 0;
    for (group_facts &group : groups_) {
        group.begin = begin;
        begin += group.count;
    }
    for (const group_facts &group : groups_)
        if (group.count == pieces_.size()) return true;
    if (!sorted_.resize(pieces_.size())) return false;
    std::size_t next[piece_groups];
    for (int group = 0; group < piece_groups; ++group)
        next[group] = groups_[group].begin;
    for (const batch_piece &piece : pieces_)
        sorted_[next[static_cast<int>(group_of(ranges[piece.from], ranges[piece.to]))]++] = piece;
    pieces_.swap(sorted_);
    return true;
}

bool append_spans(const shape &shape, std::uint64_t index, growing<byte_span> &spans) noexcept {
    std::uint64_t rows = 0;
    if (!multiply(shape.height, shape.depth, rows) || rows > SIZE_MAX / sizeof(byte_span) / 4 ||
        !spans.reserve(spans.size() + 2 * rows))
        return false;
    for (const shape_end *const end : {&shape.source, &shape.destination})
        for (std::uint64_t z = 0; z < shape.depth; ++z)
            for (std::uint64_t y = 0; y < shape.height; ++y) {
                byte_span span = {.index = index, .is_destination = end == &shape.destination};
                if (end->array) {
                    span.space = reinterpret_cast<std::uintptr_t>(end->array);
                    span.z = end->z + z;
                    span.y = end->y + y;
                    span.first = end->x;
                } else {
                    span.space = reinterpret_cast<std::uintptr_t>(end->file);
                    span.first = end->span.first + (z * end->slice_height + y) * end->row_pitch;
                }
                span.last = span.first + (shape.width - 1);
                spans.append_reserved(span);
            }
    return true;
}

shared_bytes find_shared_bytes(growing<byte_span> &spans) noexcept {
    const auto row_of = [](const byte_span &span) noexcept { return std::tie(span.space, span.z, span.y); };
    std::sort(spans.begin(), spans.end(), [&](const byte_span &one, const byte_span &other) noexcept {
        return std::tie(one.space, one.z, one.y, one.first) < std::tie(other.space, other.z, other.y, other.first);
    });
    // The span so far with the highest end: among the sources [0] and among the destinations [1].
    const byte_span *furthest[2] = {};
    for (const byte_span &span : spans) {
        for (const bool is_destination : {false, true}) {
            const byte_span *const before = furthest[is_destination];
            if (!before || !(is_destination || span.is_destination)) continue;
            if (row_of(*before) != row_of(span) || before->last < span.first) continue;
            const auto [earlier, later] =
                std::minmax(*before, span,
                            [](const byte_span &one, const byte_span &two) noexcept { return one.index < two.index; });
            return {true, later.index, earlier.index, later.is_destination};
        }
        const byte_span *&reach = furthest[span.is_destination];
        if (!reach || row_of(*reach) != row_of(span) || reach->last < span.last) reach = &span;
    }
    return {};
}

} // namespace ferry
