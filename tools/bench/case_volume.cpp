// volume: to, from and between CUDA arrays, whole and boxes inside.
#include "contest.h"
#include "grids.h"
#include "report.h"

namespace bench {

namespace {

case_result run_volume(session &session) {
    case_result result = {
        .note = std::string("arrays of up to 64 MiB; inside: all of them but a margin; linear memory is pinned or the "
                            "device's,\nits rows tight or (odd) 13 B apart and then in 3D its slices 3 rows; ferry's: "
                            "made with FERRY_ARRAY_SURFACE\n") +
                contest_note,
        .label_columns = volume_grid.columns};
    result.label_columns.push_back(raw_call_column);
    volume_grid.visit(session, [&](const grid_box &of) {
        session.progress.show("volume", of.labels[0] + ' ' + of.labels[2], of.box.size.bytes());
        result.rows.push_back(measure_box(session, of.labels, of.box, ceiling_of(of.ceiling, session.ceilings)));
        if (of.target) result.rows.back().target = of.target;
    });
    return result;
}

} // namespace

const bench_case volume_case = {"volume", "to, from and between CUDA arrays, whole and boxes inside", run_volume};

} // namespace bench
