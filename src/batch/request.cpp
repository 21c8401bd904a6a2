#include "batch/request.h"

namespace ferry {

shape shape_of(const batch_piece &piece, const known_ranges &ranges) noexcept {
    const auto end_of = [&](std::uint64_t address, std::uint32_t range) noexcept {
        shape_end end = {};
        end.kind = ranges[range].kind;
        end.device = ranges[range].device;
        end.span = {address, address + (piece.size - 1)};
        end.row_pitch = piece.size;
        end.slice_height = 1;
        return end;
    };
    return {end_of(piece.source, piece.from), end_of(piece.destination, piece.to), piece.size, 1, 1};
}

void know_ends(const checked_batch &batch, const shape &shape, const known_ends &known, resolved_ends &ends) noexcept {
    const auto know = [&](const shape_end &end, std::uint32_t index, resolved_place &place) noexcept {
        if (!end.array && batch.ranges.facts_at(end.span.first, index, place.facts.emplace()))
            place.query = address_query::everything_and_access;
    };
    know(shape.source, known.from, ends.source);
    know(shape.destination, known.to, ends.destination);
}

} // namespace ferry
