// Rows with gaps between them, at one end or at both: many shapes of moderate size, and the large boxes that have
// targets.
#include <algorithm>
#include <cstring>

#include "contest.h"
#include "grids.h"

namespace bench {

namespace of_grid_strided {
namespace {

constexpr std::size_t widths[] = {1, 2, 3, 4, 8, 16, 17, 32, 64, 100, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10};

// The distance of rows: no gap; twice the width; odd; a multiple of 512 B, as returned by cuMemAllocPitch.
enum class pitch { tight, twice, odd, aligned };

// A pitched source makes the copy a gather, and a pitched destination makes it a scatter.
struct layout {
    pitch source, destination;
};
constexpr layout layouts[] = {
    {pitch::twice, pitch::tight},   {pitch::tight, pitch::twice},   {pitch::twice, pitch::twice},
    {pitch::odd, pitch::tight},     {pitch::tight, pitch::odd},     {pitch::odd, pitch::aligned},
    {pitch::tight, pitch::aligned}, {pitch::aligned, pitch::tight},
};

// Enough to show the cost of a row. Even for the narrowest rows, 64 Ki rows from the host take 0.6 ms and 256 Ki rows
// within the device take 90 us (the driver's copies on an H200, CUDA 13.0; ferry-bench --case strided).
constexpr std::size_t max_rows(bool within_device) { return within_device ? 256 << 10 : 64 << 10; }

std::size_t padding(pitch pitch, std::size_t width) {
    switch (pitch) {
    case pitch::twice:
        return width;
    case pitch::odd:
        return ((width + 7) | 1) - width;
    case pitch::aligned:
        return 512 - width % 512; // never 0
    default:
        return 0;
    }
}

box strided_box(const session &session, const direction &direction, const layout &layout, std::size_t width,
                std::size_t max_height) {
    const std::size_t source_padding = padding(layout.source, width);
    const std::size_t destination_padding = padding(layout.destination, width);
    const std::size_t frame_width = width + std::max(source_padding, destination_padding);
    const extent size = {width, std::min(max_height, session.workspace.largest / frame_width)};
    return {padded(direction.source, size, source_padding, 0),
            padded(direction.destination, size, destination_padding, 0), size};
}

std::string pitch_text(const place &place, const extent &size) {
    return place.frame.width == size.width ? "tight" : std::to_string(place.frame.width);
}

grid_box grid_box_of(const direction &direction, const box &box) {
    return {{direction.name, std::to_string(box.size.width), std::to_string(box.size.height),
             pitch_text(box.source, box.size), pitch_text(box.destination, box.size)},
            box,
            direction.name};
}

// ---- Boxes large enough that the launch time is negligible

constexpr layout gather = {pitch::twice, pitch::tight}, scatter = {pitch::tight, pitch::twice},
                 both = {pitch::twice, pitch::twice};

struct narrow_rows {
    const char *direction;
    of_grid_strided::layout layout;
    std::size_t width;
    double target; // 0: none
};
// Only a few, because the driver takes 16 ms for 16 MiB of the narrowest rows.
constexpr narrow_rows all_narrow_rows[] = {
    {"H2D", gather, 4, 12},   {"H2D", scatter, 4, 35},   {"D2D", gather, 4, 14},   {"D2D", scatter, 4, 14},
    {"H2D", gather, 16, 2.2}, {"H2D", scatter, 16, 4.5}, {"D2D", gather, 16, 5.5}, {"D2D", scatter, 16, 5.5},
    {"D2H", gather, 4, 0},    {"D2H", scatter, 4, 0},    {"D2H", gather, 16, 0},   {"D2H", scatter, 16, 0},
};
constexpr std::size_t narrow_bytes_over_link = 16 << 20, narrow_bytes_within_device = 64 << 20;

constexpr std::size_t wide_widths[] = {64, 128, 256, 512, 1 << 10, 4 << 10, 16 << 10, 64 << 10};
constexpr std::size_t wide_bytes = 256 << 20;
constexpr double min_wide_bandwidth = 1800; // GB/s on an H200, where a contiguous copy reaches 2100

void visit_narrow(const session &session, const box_visitor &visit) {
    for (const narrow_rows &rows : chosen(session, all_narrow_rows))
        for (const direction &direction : pinned_directions(session.workspace)) {
            if (std::strcmp(direction.name, rows.direction) != 0) continue;
            const std::size_t wanted =
                direction.kind() == memory::device ? narrow_bytes_within_device : narrow_bytes_over_link;
            const std::size_t bytes = std::min(wanted, session.workspace.largest / 16);
            grid_box found =
                grid_box_of(direction, strided_box(session, direction, rows.layout, rows.width, bytes / rows.width));
            found.is_large = true;
            if (bytes == wanted && rows.target > 0) found.target = rows.target;
            visit(found);
        }
}

void visit_wide(const session &session, const box_visitor &visit) {
    const direction within_device = pinned_directions(session.workspace).back();
    const std::size_t bytes = std::min(wide_bytes, session.workspace.largest / 4);
    for (const layout &layout : {gather, scatter, both})
        for (const std::size_t width : chosen(session, wide_widths)) {
            grid_box found =
                grid_box_of(within_device, strided_box(session, within_device, layout, width, bytes / width));
            found.is_large = true;
            if (bytes == wide_bytes) found.min_bandwidth = min_wide_bandwidth;
            visit(found);
        }
}

// ---- All shapes

void visit_moderate(const session &session, const box_visitor &visit) {
    for (const direction &direction : pinned_directions(session.workspace)) {
        const bool within_device = direction.kind() == memory::device;
        const std::size_t bytes = table_bytes(session, within_device ? way_of_bytes::devices : way_of_bytes::host);
        for (const layout &layout : chosen(session, layouts))
            for (const std::size_t width : chosen(session, widths))
                visit(grid_box_of(direction, strided_box(session, direction, layout, width,
                                                         std::min(max_rows(within_device), bytes / width))));
    }
}

void visit_strided(session &session, const box_visitor &visit) {
    visit_narrow(session, visit);
    visit_wide(session, visit);
    visit_moderate(session, visit);
}

} // namespace
} // namespace of_grid_strided

const box_grid strided_grid = {
    "strided", {"copy", "row bytes", "rows", "source pitch", "destination pitch"}, of_grid_strided::visit_strided};

} // namespace bench
