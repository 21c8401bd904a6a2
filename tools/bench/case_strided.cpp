// strided: rows with gaps between them, at one end or at both.
#include "contest.h"
#include "grids.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_strided {
namespace {

case_result run_strided(session &session) {
    std::vector<std::string> columns = strided_grid.columns;
    columns.emplace_back(raw_call_column);
    case_result result = session.begin(
        {.note = joined(
             {"First large boxes, of 16 MiB from or to the host, 64 MiB of narrow and 256 MiB of wide rows within "
              "the device, then up to\n64 Ki rows and 32 MiB, within the device 256 Ki and 64 MiB; pitches are "
              "bytes from row to row; host memory is pinned;\nGB/s: each copied byte counts once;\n",
              contest_note, ";\n", routes_note}),
         .label_columns = columns});
    strided_grid.visit(session, [&](const grid_box &of) {
        session.progress.show("strided", of.labels[0] + ' ' + of.labels[1] + " B rows", of.box.size.bytes());
        const double ceiling = ceiling_of(of.ceiling, session.ceilings);
        if (!of.is_large) {
            result.rows.push_back(measure_box(session, of.labels, of.box, ceiling));
            return;
        }
        row row = measure_routes(session, {of.labels, {of.box}, ceiling}, contest_budget_ns(session));
        row.target = of.target;
        if (of.min_bandwidth) {
            row.max_ns = static_cast<double>(row.bytes) / *of.min_bandwidth;
            row.choice->target = 0.95; // of the fastest route, for rows that do not reach that bandwidth
        }
        result.rows.push_back(std::move(row));
    });
    return result;
}

} // namespace
} // namespace of_strided

const bench_case strided_case = {"strided", "rows of 1 B to 64 KiB with gaps between them, on either side or both",
                                 of_strided::run_strided};

} // namespace bench
