#include "copy/batch.h"

#include <algorithm>
#include <tuple>

namespace ferry {

piece_group group_of(const known_range &from, const known_range &to) noexcept {
    constexpr auto apart = piece_group::apart, up = piece_group::up, down = piece_group::down;
    constexpr auto within = piece_group::within, between = piece_group::between, managed = piece_group::managed;
    constexpr piece_group groups[range_uses][range_uses] = {
        // to none, pinned, the device, a peer, managed
        {apart, apart, apart, apart, apart},         {apart, apart, up, between, managed},
        {apart, down, within, between, managed},     {apart, between, between, between, managed},
        {apart, managed, managed, managed, managed},
    };
    return groups[static_cast<int>(from.use)][static_cast<int>(to.use)];
}

bool sort_by_group(growing<batch_piece> &pieces, growing<batch_piece> &scratch, const known_ranges &ranges,
                   group_facts (&groups)[piece_groups]) noexcept {
    const auto facts_of = [&](const batch_piece &piece) noexcept -> group_facts & {
        return groups[static_cast<int>(group_of(ranges[piece.from], ranges[piece.to]))];
    };
    for (group_facts &facts : groups)
        facts = {};
    for (const batch_piece &piece : pieces) {
        group_facts *const facts = &facts_of(piece);
        ++facts->count;
        facts->bytes += piece.size;
        facts->largest = std::max(facts->largest, piece.size);
        facts->misalignment |= piece.source ^ piece.destination;
    }
    std::size_t begin = 0;
    for (group_facts &one : groups) {
        one.begin = begin;
        begin += one.count;
        if (one.count == pieces.size()) return true;
    }
    if (!scratch.resize(pieces.size())) return false;
    std::size_t next[piece_groups];
    for (int group = 0; group < piece_groups; ++group)
        next[group] = groups[group].begin;
    for (const batch_piece &piece : pieces)
        scratch[next[&facts_of(piece) - groups]++] = piece;
    pieces.swap(scratch);
    return true;
}

bool append_spans(const shape &shape, std::uint64_t index, growing<byte_span> &spans) noexcept {
    std::uint64_t rows = 0;
    if (__builtin_mul_overflow(shape.height, shape.depth, &rows) || rows > SIZE_MAX / sizeof(byte_span) / 4 ||
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
    // Of the destinations and of the sources so far, the one that reaches furthest.
    const byte_span *furthest[2] = {};
    for (const byte_span &span : spans) {
        for (const bool is_destination : {false, true}) {
            const byte_span *const before = furthest[is_destination];
            if (!before || !(is_destination || span.is_destination)) continue;
            if (row_of(*before) == row_of(span) && before->last >= span.first)
                return {true, std::max(before->index, span.index), std::min(before->index, span.index)};
        }
        const byte_span *&reach = furthest[span.is_destination];
        if (!reach || row_of(*reach) != row_of(span) || reach->last < span.last) reach = &span;
    }
    return {};
}

} // namespace ferry
