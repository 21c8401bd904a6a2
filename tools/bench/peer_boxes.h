// Boxes between two devices, described by the memory at their ends.
#pragma once

#include <string>
#include <vector>

#include "case.h"

namespace bench {

enum class side { tight, pitched, array };

struct peer_box {
    const char *dimensions;
    extent size;
    side source, destination;
};

// A box in the buffers of a direction, with fewer slices or rows if a table of this session must copy less.
struct placed_box {
    std::vector<std::string> labels; // for the columns box, rows, source and destination
    bench::box box;
    std::vector<array> arrays; // at its ends
};
placed_box place_box(const session &session, const direction &direction, const peer_box &described);
// Same as above, for one contiguous piece.
placed_box place_line(const direction &direction, std::size_t size);

} // namespace bench
