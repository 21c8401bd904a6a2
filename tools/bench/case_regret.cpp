// regret: compares the route that ferry chooses with every route that can be forced, for the boxes of strided and
// volume.
#include <algorithm>

#include "contest.h"
#include "grids.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_regret {
namespace {

// A row is measured for half of its share of the remaining time. The other half is for its raw calls and for verifying
// its bytes.
constexpr double full_time_ns = 80e9, quick_time_ns = 4e9;
constexpr double max_budget_ns = 0.1e9;

constexpr const box_grid *grids[] = {&strided_grid, &volume_grid};

// Joins all labels except the first, which names the copy.
std::string shape_text(const std::vector<std::string> &labels) {
    std::string text;
    for (std::size_t i = 1; i < labels.size(); ++i)
        text += (i == 1 ? "" : ", ") + labels[i];
    return text;
}

std::size_t count_boxes(session &session) {
    std::size_t count = 0;
    for (const box_grid *grid : grids)
        grid->visit(session, [&](const grid_box &) { ++count; });
    return count;
}

case_result run_regret(session &session) {
    case_result result = session.begin(
        {.note = joined(
             {"all boxes of strided (row bytes, rows, source pitch, destination pitch) and of volume "
              "(array, texels, texel bytes, box,\npitch), host memory pinned; raw: the fastest of the "
              "driver's calls that can make the copy; all until the bytes have arrived; the targets allow\n10 % + "
              "100 ns more than the best route and 2 % + 100 ns more than the raw call;\n",
              routes_note}),
         .label_columns = {"copy", "grid", "shape", raw_call_column}});
    std::size_t left = count_boxes(session);
    const double end = now_ns() + (session.is_quick ? quick_time_ns : full_time_ns);
    for (const box_grid *grid : grids)
        grid->visit(session, [&](const grid_box &of) {
            const std::string shape = shape_text(of.labels);
            session.progress.show("regret", of.labels[0] + ' ' + shape + ',', of.box.size.bytes());
            const double share = std::max(end - now_ns(), 0.0) / static_cast<double>(left--);
            row row = measure_routes(
                session, {{of.labels[0], grid->name, shape}, {of.box}, ceiling_of(of.ceiling, session.ceilings)},
                std::min(share / 2, max_budget_ns));
            row.target = target_of(more_than_raw_call, row.times.raw_ns.median);
            result.rows.push_back(std::move(row));
        });
    return result;
}

} // namespace
} // namespace of_regret

const bench_case regret_case = {"regret",
                                "the route that ferry chooses beside the best, on the boxes of strided and volume",
                                of_regret::run_regret};

} // namespace bench
