// Many copies at once as the library sees them: runs of bytes, each within one allocation at either end and neighbours
// merged, sorted by what can serve them; and what shares bytes with what.
#pragma once

#include "base/growing.h"
#include "copy/shape.h"
#include "memory/known_ranges.h"

namespace ferry {

struct batch_piece {
    std::uint64_t destination, source, size;
    std::uint32_t to, from; // the known ranges that they lie in
};

// What pieces have in common that can go the same ways.
enum class piece_group : std::uint8_t {
    up,      // pinned host memory to the context's device
    down,    // the reverse
    within,  // memory of that device
    between, // of which an end is on a peer that kernels of the context reach
    managed, // of which an end may be anywhere
    apart,   // a call for each: pageable memory, host to host, devices without access to each other
};
constexpr int piece_groups = 6;

piece_group group_of(const known_range &from, const known_range &to) noexcept;

// A piece that continues the last one at both ends becomes part of it.
inline void append_merging(growing<batch_piece> &pieces, const batch_piece &added) noexcept {
    if (pieces.size()) {
        batch_piece &last = *(pieces.end() - 1);
        const std::uint64_t to_gap = added.destination - (last.destination + last.size);
        const std::uint64_t from_gap = added.source - (last.source + last.size);
        const std::uint32_t other_ranges = (added.to ^ last.to) | (added.from ^ last.from);
        if ((to_gap | from_gap | other_ranges) == 0) {
            last.size += added.size;
            return;
        }
    }
    pieces.append_reserved(added);
}

struct group_facts {
    std::size_t begin = 0, count = 0; // of the sorted pieces
    std::uint64_t bytes = 0, largest = 0;
    std::uint64_t misalignment = 0; // of the ends to each other: the bits in which they differ anywhere
};

// Sorts the pieces by their groups, otherwise keeping their order. False where there is no memory.
[[nodiscard]] bool sort_by_group(growing<batch_piece> &pieces, growing<batch_piece> &scratch,
                                 const known_ranges &ranges, group_facts (&groups)[piece_groups]) noexcept;

// Bytes that follow each other: of memory, or of a row of an array.
struct byte_span {
    std::uint64_t space = 0; // an array; 0: memory
    std::uint64_t z = 0, y = 0;
    std::uint64_t first = 0, last = 0;
    std::uint64_t index = 0; // of the copy
    bool is_destination = false;
};

// Both ends of a copy that is laid out, row by row. False where there is no memory.
[[nodiscard]] bool append_spans(const shape &shape, std::uint64_t index, growing<byte_span> &spans) noexcept;

// Sorts the spans. Whether a destination shares bytes with anything of another copy; then the indices of two that do.
struct shared_bytes {
    bool found = false;
    std::uint64_t index = 0, other = 0; // the later and the earlier one
};
shared_bytes find_shared_bytes(growing<byte_span> &spans) noexcept;

} // namespace ferry
