// The library's representation of a batch of copies: pieces, which are runs of bytes within one allocation at either
// end. Adjacent pieces are merged, and pieces are sorted by the routes that can serve them. Also finds copies that
// share bytes.
#pragma once

#include "base/growing.h"
#include "copy/shape.h"
#include "memory/known_ranges.h"

namespace ferry {

struct batch_piece {
    std::uint64_t destination, source, size;
    std::uint32_t to, from; // the indices of their known ranges
};

// Groups of pieces that the same routes can serve.
enum class piece_group : std::uint8_t {
    up,            // pinned host memory to the context's device
    down,          // the context's device to pinned host memory
    within,        // both ends in memory of the context's device
    between,       // an end is on a peer that kernels of the context can access
    managed,       // an end is in managed memory, which may reside anywhere
    pageable_up,   // pageable memory to the context's device
    pageable_down, // the context's device to pageable memory
    apart,         // one driver call each: other pageable memory, host to host, devices without peer access, and a
                   // host pool beside a peer, for which the pool may be pageable (look_up_pool_ends)
};
constexpr int piece_groups = 8;
constexpr bool is_pageable(piece_group group) noexcept {
    return group == piece_group::pageable_up || group == piece_group::pageable_down;
}

inline piece_group group_of(range_use from, range_use to) noexcept {
    constexpr auto apart = piece_group::apart, up = piece_group::up, down = piece_group::down;
    constexpr auto within = piece_group::within, between = piece_group::between, managed = piece_group::managed;
    constexpr auto pageable_up = piece_group::pageable_up, pageable_down = piece_group::pageable_down;
    static constexpr piece_group groups[range_uses][range_uses] = {
        // columns: destination none, pinned, pool, device, peer, managed, pageable; rows: source, in the same order
        {apart, apart, apart, apart, apart, apart, apart},
        {apart, apart, apart, up, between, managed, apart},
        {apart, apart, apart, up, apart, managed, apart},
        {apart, down, down, within, between, managed, pageable_down},
        {apart, between, apart, between, between, managed, apart},
        {apart, managed, managed, managed, managed, managed, apart},
        {apart, apart, apart, pageable_up, apart, apart, apart},
    };
    return groups[static_cast<int>(from)][static_cast<int>(to)];
}
inline piece_group group_of(const known_range &from, const known_range &to) noexcept {
    return group_of(from.as_source, to.as_destination);
}

// Whether two copies differ only in the origin at the source and the address of the destination.
inline bool is_moved(const ferry_copy_desc &copy, const ferry_copy_desc &other) noexcept {
    const auto differ = [](const ferry_place &one, const ferry_place &other) noexcept {
        std::uint64_t bits = static_cast<std::uint32_t>((one.kind ^ other.kind) | (one.device ^ other.device)) |
                             (one.row_pitch ^ other.row_pitch) | (one.slice_height ^ other.slice_height);
        for (int i = 0; i < 4; ++i)
            bits |= one.reserved[i] ^ other.reserved[i];
        return bits | std::uint64_t{one.array != other.array};
    };
    const ferry_place &source = copy.source, &others = other.source;
    const ferry_place &destination = copy.destination, &to = other.destination;
    std::uint64_t bits = differ(source, others) | differ(destination, to) | (source.address ^ others.address) |
                         (destination.x ^ to.x) | (destination.y ^ to.y) | (destination.z ^ to.z) |
                         (copy.width ^ other.width) | (copy.height ^ other.height) | (copy.depth ^ other.depth);
    for (int i = 0; i < 5; ++i)
        bits |= copy.reserved[i] ^ other.reserved[i];
    return bits == 0;
}

struct group_facts {
    std::size_t begin = 0, count = 0; // the group's range of the sorted pieces
    std::uint64_t bytes = 0, largest = 0;
    std::uint64_t misalignment = 0; // address bits in which source and destination differ, OR-ed over all pieces
};

// Pieces, in input order until sort() orders them by group.
class grouped_pieces {
public:
    explicit grouped_pieces(const allocator &memory) noexcept : pieces_(memory), sorted_(memory) {}

    void clear() noexcept {
        pieces_.clear();
        for (group_facts &group : groups_)
            group = {};
    }
    std::size_t size() const noexcept { return pieces_.size(); }
    [[nodiscard]] bool reserve_more(std::size_t count) noexcept { return pieces_.reserve(pieces_.size() + count); }

    // The caller must have reserved the space. With `merges`, a piece that continues the last piece at both ends is
    // appended to it.
    [[gnu::always_inline]] void add(const batch_piece &added, piece_group of, bool merges) noexcept {
        group_facts &group = groups_[static_cast<int>(of)];
        group.bytes += added.size;
        if (merges && continues_last(added)) {
            batch_piece &last = *(pieces_.end() - 1);
            last.size += added.size;
            group.largest = group.largest > last.size ? group.largest : last.size;
            return;
        }
        ++group.count;
        group.largest = group.largest > added.size ? group.largest : added.size;
        group.misalignment |= added.source ^ added.destination;
        pieces_.append_reserved(added);
    }

    // Sorts the pieces by group and keeps their order within a group. False if memory runs out.
    [[nodiscard]] bool sort(const known_ranges &ranges) noexcept;

    // In input order until sort().
    const batch_piece &operator[](std::size_t at) const noexcept { return pieces_[at]; }
    const batch_piece *begin() const noexcept { return pieces_.begin(); }
    const batch_piece *end() const noexcept { return pieces_.end(); }

    const group_facts &facts(int group) const noexcept { return groups_[group]; }
    // The pieces of a group, after sort().
    const batch_piece *begin(int group) const noexcept { return begin() + groups_[group].begin; }
    const batch_piece *end(int group) const noexcept { return begin(group) + groups_[group].count; }

private:
    bool continues_last(const batch_piece &added) const noexcept {
        if (pieces_.size() == 0) return false;
        const batch_piece &last = *(pieces_.end() - 1);
        const std::uint64_t to_gap = added.destination - (last.destination + last.size);
        const std::uint64_t from_gap = added.source - (last.source + last.size);
        const std::uint32_t other_ranges = (added.to ^ last.to) | (added.from ^ last.from);
        return (to_gap | from_gap | other_ranges) == 0;
    }

    growing<batch_piece> pieces_, sorted_;
    group_facts groups_[piece_groups];
};

// Contiguous bytes of memory, or of one row of an array.
struct byte_span {
    std::uint64_t space = 0; // an array or a file; 0: memory
    std::uint64_t z = 0, y = 0;
    std::uint64_t first = 0, last = 0;
    std::uint64_t index = 0; // of the copy to which the span belongs
    bool is_destination = false;
};

// Appends the rows of both ends of a laid-out copy. False if memory runs out.
[[nodiscard]] bool append_spans(const shape &shape, std::uint64_t index, growing<byte_span> &spans) noexcept;

// Two copies that share bytes which at least one of them writes.
struct shared_bytes {
    bool found = false;
    std::uint64_t index = 0, other = 0; // the later and the earlier copy
    bool is_destination = false;        // the end of the later copy
};
// Finds a destination that shares bytes with an end of another copy. Sorts the spans.
shared_bytes find_shared_bytes(growing<byte_span> &spans) noexcept;

} // namespace ferry
