// Cuts a copy into boxes that the driver takes: whole slices, whole rows, and parts of the rows that a border cuts. The
// driver refuses a copy whose host end begins in one piece of registered memory and leaves it (docs/driver.md).
#pragma once

#include "copy/shape.h"

namespace ferry {

// A part without a width is absent.
struct cut_shape {
    shape before; // before the border
    shape across; // one slice or row that the border cuts
    shape after;
};

// Cuts a copy at the border that lies `distance` bytes after the first byte of its source or its destination. That end
// must be linear, begin before the border and end after it.
cut_shape cut_at_border(const shape &whole, bool at_source, std::uint64_t distance) noexcept;

// Runs `run` for each part in the order of the bytes, until one fails. `end_of_piece(address)` returns the first
// address beyond the piece of registered memory that holds `address`, or 0 where there is none.
template <class EndOfPiece, class Run>
error for_each_part(shape rest, const EndOfPiece &end_of_piece, const Run &run) noexcept {
    const auto find_border = [&](const shape_end &end, std::uint64_t &distance) noexcept {
        if (end.array || !is_host(end.kind)) return false;
        const std::uint64_t border = end_of_piece(end.span.first);
        distance = border - end.span.first;
        return border != 0 && border <= end.span.last;
    };
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

} // namespace ferry
