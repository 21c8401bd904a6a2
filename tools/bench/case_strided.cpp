// strided: rows that do not follow each other without a gap, on one side or on both.
#include <algorithm>

#include "contest.h"
#include "report.h"

namespace bench {

namespace {

constexpr std::size_t widths[] = {1, 2, 3, 4, 8, 16, 17, 32, 64, 100, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10};

// How far apart rows lie: without a gap; one column of two; at an odd distance; at a multiple
// of 512 B, as cuMemAllocPitch lays them.
enum class pitch { tight, twice, odd, aligned };

// A pitched source is gathered from, a pitched destination scattered to.
struct layout {
    pitch source, destination;
};
constexpr layout layouts[] = {
    {pitch::twice, pitch::tight},   {pitch::tight, pitch::twice},   {pitch::twice, pitch::twice},
    {pitch::odd, pitch::tight},     {pitch::tight, pitch::odd},     {pitch::odd, pitch::aligned},
    {pitch::tight, pitch::aligned}, {pitch::aligned, pitch::tight},
};

// Enough to show what a row costs: 64 Ki rows from the host take 0.6 ms and 256 Ki within the device 90 us, however
// narrow they are (the driver's copies on an H200, CUDA 13.0; ferry-bench --case strided).
constexpr std::size_t most_rows(bool within_device) { return within_device ? 256 << 10 : 64 << 10; }

std::size_t padding(pitch pitch, std::size_t width) {
    switch (pitch) {
    case pitch::twice:
        return width;
    case pitch::odd:
        return ((width + 7) | 1) - width;
    case pitch::aligned:
        return 512 - width % 512; // always some
    default:
        return 0;
    }
}

box strided_box(const session &session, const direction &direction, const layout &layout, std::size_t width) {
    const std::size_t source_padding = padding(layout.source, width);
    const std::size_t destination_padding = padding(layout.destination, width);
    const std::size_t frame_width = width + std::max(source_padding, destination_padding);
    const bool within_device = direction.kind() == memory::device;
    const std::size_t bytes = table_bytes(session, within_device ? way_of_bytes::devices : way_of_bytes::host);
    const std::size_t height =
        std::min({most_rows(within_device), bytes / width, session.workspace.largest / frame_width});
    const extent size = {width, height};
    return {padded(direction.source, size, source_padding, 0),
            padded(direction.destination, size, destination_padding, 0), size};
}

std::string pitch_text(const place &place, const extent &size) {
    return place.frame.width == size.width ? "tight" : std::to_string(place.frame.width);
}

case_result run_strided(session &session) {
    case_result result = {
        .note = std::string(
                    "up to 64 Ki rows and 32 MiB, within the device 256 Ki and 64 MiB; pitches are bytes from row to "
                    "row;\nhost memory is pinned\n") +
                contest_note,
        .label_columns = {"copy", "row bytes", "rows", "source pitch", "destination pitch", raw_call_column}};
    for (const direction &direction : pinned_directions(session.workspace))
        for (const layout &layout : chosen(session, layouts))
            for (const std::size_t width : chosen(session, widths)) {
                const box box = strided_box(session, direction, layout, width);
                session.progress.show("strided", direction.name + (' ' + std::to_string(width)) + " B rows",
                                      box.size.bytes());
                std::vector<std::string> labels = {direction.name, std::to_string(width),
                                                   std::to_string(box.size.height), pitch_text(box.source, box.size),
                                                   pitch_text(box.destination, box.size)};
                result.rows.push_back(
                    measure_box(session, std::move(labels), box, ceiling_of(direction.name, session.ceilings)));
            }
    return result;
}

} // namespace

const bench_case strided_case = {"strided", "rows of 1 B to 64 KiB with gaps between them, on either side or both",
                                 run_strided};

} // namespace bench
