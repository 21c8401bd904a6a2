// relay: copies from one device to another without peer access, which pass through host memory.
#include <algorithm>

#include "contest.h"
#include "peer_boxes.h"
#include "peers.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_relay {
namespace {

// 4 MiB and more, which take 0.1 ms at the driver's 38 GB/s.
constexpr peer_box relay_boxes[] = {{"2D", {64, 64 << 10}, side::pitched, side::pitched},
                                    {"2D", {256, 64 << 10}, side::pitched, side::pitched},
                                    {"2D", {4096, 8192}, side::pitched, side::pitched},
                                    {"3D", {1024, 128, 256}, side::pitched, side::pitched},
                                    {"2D", {8192, 4096}, side::array, side::array}};

// The targets for long contiguous copies; other rows must be as fast as the driver. The driver copies 1 GiB at 38 GB/s
// over links of 55 GB/s (H200, docs/performance.md), so the limit of the ratio is 1.45.
struct line_target {
    std::size_t size;
    double ratio, of_link;
};
constexpr line_target line_targets[] = {{64 << 20, 1.25, 0.88}, {1 << 30, 1.35, 0.94}};

// Disables access through ferry, whose routes depend on it, and verifies that it is disabled.
void turn_access_off(const environment &environment, const peer_device &peer) {
    struct end {
        int device;
        CUcontext context;
    };
    const end here = {environment.device, environment.context.handle},
              there = {peer.buffer.device, peer.context.handle};
    for (const auto &[from, to] : {std::pair(here, there), std::pair(there, here)}) {
        check(ferry_peer_disable(environment.basic.get(), from.device, to.device, nullptr), "ferry_peer_disable", {});
        const current_context current(environment.cu, from.context);
        if (environment.cu.cuCtxDisablePeerAccess(to.context) == CUDA_SUCCESS)
            fail("device " + std::to_string(from.device) + " had access to device " + std::to_string(to.device) +
                 " after ferry_peer_disable");
    }
}

// What all rows share.
struct lane {
    bench::session &session;
    bench::direction direction;
    double ceiling;
    row_list &rows;
};

// The stream must belong to the device of the current context.
void measure(const lane &lane, int stream_device, CUstream stream, const placed_box &placed) {
    const auto &[labels, box, arrays] = placed;
    lane.session.progress.show("relay", lane.direction.name + (' ' + labels.front()), box.size.bytes());
    std::vector<std::string> all = {lane.direction.name, "device " + std::to_string(stream_device)};
    all.insert(all.end(), labels.begin(), labels.end());
    row found = measure_box(lane.session, std::move(all), box, lane.ceiling, stream);
    for (const line_target &each : line_targets)
        if (box.size.is_line() && box.size.bytes() == each.size) {
            found.target = each.ratio;
            found.of_link = share_of_ceiling(lane.ceiling, found.bytes, found.times.ferry_ns, each.of_link);
        }
    lane.rows.push_back(std::move(found));
}

case_result run_relay(session &session) {
    const environment &environment = session.environment;
    if (environment.report.device_count < 2) return skipped("needs two devices");
    case_result result = session.begin(
        {.note =
             joined({"without peer access in either direction; pitched: 13 B between rows, and in 3D 3 rows between "
                     "slices; ceiling: the lower\nof the ceilings H2D and D2H;\n",
                     contest_note}),
         .label_columns = {"copy", "stream of", "box", "rows", "source", "destination", raw_call_column}});
    environment.need({"cuCtxDisablePeerAccess"});
    const peer_device peer(environment, environment.device == 0 ? 1 : 0, session.workspace.largest);
    turn_access_off(environment, peer);
    const std::string name = std::to_string(environment.device) + " to " + std::to_string(peer.buffer.device);
    const lane lane = {session,
                       {name.c_str(), session.workspace.device_source, peer.buffer},
                       std::min(ceiling_of("H2D", session.ceilings), ceiling_of("D2H", session.ceilings)),
                       result.rows};
    for (std::size_t size = 1 << 20; size <= session.workspace.largest; size *= 4)
        measure(lane, environment.device, environment.stream.get(), place_line(lane.direction, size));
    for (const peer_box &each : relay_boxes)
        measure(lane, environment.device, environment.stream.get(), place_box(session, lane.direction, each));
    const current_context current(environment.cu, peer.context.handle);
    for (const std::size_t size : sizes_that_fit(session.workspace, {64 << 20, 1 << 30}))
        measure(lane, peer.buffer.device, peer.stream.get(), place_line(lane.direction, size));
    return result;
}

} // namespace
} // namespace of_relay

const bench_case relay_case = {"relay", "between two devices without peer access, 1 MiB to 1 GiB, boxes and an array",
                               of_relay::run_relay};

} // namespace bench
