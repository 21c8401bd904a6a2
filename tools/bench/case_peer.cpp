// peer: copies from one device to another, without and with peer access.
#include "contest.h"
#include "peer_boxes.h"
#include "peers.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_peer {
namespace {

// Up to 32 MiB. That takes 80 us at 400 GB/s, between two H200s over NVLink 4, and 0.9 ms at 37 GB/s without access.
constexpr peer_box peer_boxes[] = {
    {"2D", {16, 64 << 10}, side::pitched, side::pitched},   {"2D", {256, 64 << 10}, side::pitched, side::tight},
    {"2D", {256, 64 << 10}, side::tight, side::pitched},    {"2D", {4096, 8192}, side::pitched, side::pitched},
    {"3D", {1024, 128, 256}, side::pitched, side::pitched}, {"3D", {1024, 128, 256}, side::tight, side::pitched},
    {"2D", {8192, 4096}, side::array, side::array},         {"3D", {1024, 128, 256}, side::array, side::array},
    {"3D", {1024, 128, 256}, side::tight, side::array},     {"3D", {1024, 128, 256}, side::array, side::tight},
};

// The values that all rows of one direction and one state of peer access share.
struct lane {
    bench::session &session;
    bench::direction direction;
    const char *access;
    double ceiling;
    row_list &rows;
};

void measure(const lane &lane, const placed_box &placed) {
    const auto &[labels, box, arrays] = placed;
    lane.session.progress.show("peer", lane.direction.name + (' ' + labels.front()), box.size.bytes());
    std::vector<std::string> all = {lane.direction.name, lane.access};
    all.insert(all.end(), labels.begin(), labels.end());
    lane.rows.push_back(measure_box(lane.session, std::move(all), box, lane.ceiling));
}

void measure_with_access(session &session, const peer_device &peer, bool is_on, row_list &rows) {
    const workspace &workspace = session.workspace;
    const std::string here = std::to_string(session.environment.device), there = std::to_string(peer.buffer.device);
    const std::string names[] = {here + " to " + there, there + " to " + here};
    for (const direction &direction : {direction{names[0].c_str(), workspace.device_source, peer.buffer},
                                       direction{names[1].c_str(), peer.buffer, workspace.device_destination}}) {
        const double ceiling = measure_ceiling(session.environment, session.workspace, direction);
        const lane lane = {session, direction, is_on ? "on" : "off", ceiling, rows};
        for (std::size_t size = 64 << 10; size <= workspace.largest; size *= session.is_quick ? 16 : 4)
            measure(lane, place_line(direction, size));
        for (const peer_box &each : chosen(session, peer_boxes))
            measure(lane, place_box(session, direction, each));
    }
}

case_result run_peer(session &session) {
    const environment &environment = session.environment;
    case_result result = session.begin(
        {.note =
             "on a stream of device " + std::to_string(environment.device) +
             "; access: whether peer access is enabled in both directions; pitched: 13 B between rows, and in\n3D 3 "
             "rows "
             "between slices; ceiling: the best cuMemcpyDtoDAsync of at least 64 MiB with that access;\n" +
             contest_note,
         .label_columns = {"copy", "access", "box", "rows", "source", "destination", raw_call_column}});
    if (environment.report.device_count < 2) {
        result.note = "skipped: needs two devices";
        return result;
    }
    environment.need({"cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"});
    const peer_device peer(environment, environment.device == 0 ? 1 : 0, session.workspace.largest);
    for (const bool is_on : {false, true}) {
        const peer_access access(environment.cu, environment.context.handle, peer.context.handle, is_on);
        if (access.refusal() == CUDA_SUCCESS)
            measure_with_access(session, peer, is_on, result.rows);
        else
            result.note += std::string("\nskipped: access on, which the driver refuses: ") +
                           ferry_status_name(FERRY_STATUS_DRIVER_BASE - static_cast<std::int32_t>(access.refusal()));
    }
    return result;
}

} // namespace
} // namespace of_peer

const bench_case peer_case = {"peer", "between two devices, 64 KiB to 1 GiB, boxes and arrays", of_peer::run_peer};

} // namespace bench
