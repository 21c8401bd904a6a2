#include "peer_boxes.h"

#include "contest.h"

namespace bench {

namespace {

constexpr const char *side_names[] = {"tight", "pitched", "array"};

// With even widths, these pitches leave rows and slices unaligned.
constexpr std::size_t row_padding = 13, slice_padding = 3;
constexpr std::size_t texel_size = 4;

// Returns the box with fewer slices or rows.
extent shortened(extent size, std::size_t most) {
    std::size_t &length = size.depth > 1 ? size.depth : size.height;
    while (size.bytes() > most)
        length /= 2;
    return size;
}

} // namespace

placed_box place_box(const session &session, const direction &direction, const peer_box &described) {
    const environment &environment = session.environment;
    const extent size = shortened(described.size, table_bytes(session, way_of_bytes::devices));
    placed_box placed = {{described.dimensions, dimensions_text(std::to_string(size.width) + " B", size),
                          side_names[static_cast<int>(described.source)],
                          side_names[static_cast<int>(described.destination)]},
                         {},
                         {}};
    const auto end = [&](side side, const buffer &buffer) {
        if (side == side::tight) return padded(buffer, size, 0, 0);
        if (side == side::pitched) return padded(buffer, size, row_padding, size.depth > 1 ? slice_padding : 0);
        const current_context current(environment.cu, buffer.context);
        placed.arrays.push_back(make_array(environment, buffer, size, texel_size));
        return placed.arrays.back().place;
    };
    placed.box = {end(described.source, direction.source), end(described.destination, direction.destination), size};
    return placed;
}

placed_box place_line(const direction &direction, std::size_t size) {
    return {{"1D", "", side_names[0], side_names[0]}, line(direction, size), {}};
}

} // namespace bench
