// broadcast: copies the same bytes to every device at the same time.
#include "contest.h"
#include "peers.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_broadcast {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20, GiB = 1 << 30;

// One source and its destinations: all other devices, or all devices if the source is in host memory.
struct broadcast {
    std::string source_name;
    std::vector<transfer> copies; // on streams of their destinations' devices, without sizes
    double ceiling;
    std::vector<std::size_t> sizes;
};

// The driver sends the whole source over each link. With four links, a quarter over each is sufficient, because the
// devices can exchange the quarters, so the limit of the ratio is 4. Elsewhere ferry must be as fast as the driver, as
// in contest.cpp.
std::optional<double> target_for(const broadcast &of, std::size_t size) {
    const bool is_pinned = of.copies.front().way.kind() == memory::pinned, are_many = of.copies.size() >= 4;
    if (is_pinned && size == GiB) return are_many ? std::optional(3.4) : std::nullopt;
    if (is_pinned && size == 64 * MiB && are_many) return 2.5;
    return 0.99;
}

// Targets for 1 GiB: GB/s from the host to four devices or more, and from a device a share of the bandwidth between one
// pair of devices. From pinned memory, a prototype reached 149 GB/s on four H200.
std::optional<double> share_target_for(const broadcast &of, std::size_t size) {
    constexpr double from_pinned = 140, from_pageable = 90, of_pair = 0.9;
    const memory kind = of.copies.front().way.kind();
    if (size != GiB) return std::nullopt;
    if (!of.copies.front().way.source.is_host()) return of_pair;
    if (of.copies.size() < 4) return std::nullopt;
    return (kind == memory::pinned ? from_pinned : from_pageable) / of.ceiling;
}

// One call for all destinations, on a stream of the run's device.
contender ferry_pieces(const environment &environment, const std::vector<transfer> &copies, std::size_t size) {
    std::vector<ferry_piece> pieces;
    for (const transfer &copy : copies)
        pieces.push_back({copy.way.destination.address, copy.way.source.address, size});
    return {"ferry_copy_pieces_async", [&environment, pieces] {
                auto error = sized<ferry_error_info>();
                ferry_piece_list list;
                ferry_piece_list_set(&list, pieces.data(), pieces.size());
                check(ferry_copy_pieces_async(environment.basic.get(), &list, nullptr, environment.stream.get(),
                                              nullptr, &error),
                      "ferry_copy_pieces_async", error);
                drain(environment);
            }};
}

row measure(session &session, const broadcast &of, std::size_t size) {
    const environment &environment = session.environment;
    std::vector<transfer> copies = of.copies;
    std::vector<box> boxes;
    for (transfer &copy : copies) {
        copy.size = size;
        boxes.push_back(line(copy.way, size));
    }
    const bool is_on_host = copies.front().way.source.is_host();
    const char *const call = is_on_host ? "cuMemcpyHtoDAsync" : "cuMemcpyPeerAsync";
    const contender plain = raw_transfers(call, environment, copies);
    const bool may_block = copies.front().way.kind() == memory::pageable;
    const contender all[] = {may_block ? plain : raw_transfers_in_order(call, environment, copies),
                             ferry_pieces(environment, copies, size), plain};
    verify_each(session.workspace, boxes, all);
    const std::vector<samples> taken =
        interleave(all, session.is_quick ? effort{3, 40, 0.015e9} : effort{7, 400, 0.3e9});
    const comparison times = compare(taken[0], taken[1]);
    return {.labels = {of.source_name, std::to_string(copies.size()), call},
            .bytes = size,
            .times = times,
            .target = target_for(of, size),
            .ceiling = of.ceiling,
            .reference_ns = summarise(taken[2]),
            .of_link = share_of_ceiling(of.ceiling, size, times.ferry_ns, share_target_for(of, size))};
}

std::vector<broadcast> all_broadcasts(const session &session, const peer_devices &peers) {
    const environment &environment = session.environment;
    workspace &workspace = session.workspace;
    const auto to_all = [&](const buffer &source) {
        std::vector<transfer> copies;
        if (source.is_host())
            copies.push_back({{"H2D", source, workspace.device_destination},
                              0,
                              environment.context.handle,
                              environment.stream.get()});
        for (const auto &peer : peers)
            copies.push_back({{source.is_host() ? "H2D" : "D2D", source, peer->buffer},
                              0,
                              peer->context.handle,
                              peer->stream.get()});
        return copies;
    };
    const double of_links = ceiling_of("H2D", session.ceilings) * static_cast<double>(peers.size() + 1),
                 of_peer =
                     measure_ceiling(environment, workspace, {"D2D", workspace.device_source, peers.front()->buffer});
    return {
        {"pinned", to_all(workspace.pinned), of_links,
         sizes_that_fit(workspace, {GiB, 256 * MiB, 64 * MiB, 16 * MiB, 8 * MiB, 4 * MiB, 3 * MiB, MiB, 256 * KiB})},
        {"pageable", to_all(workspace.pageable), of_links, sizes_that_fit(workspace, {GiB, 64 * MiB})},
        {"device " + std::to_string(environment.device), to_all(workspace.device_source), of_peer,
         sizes_that_fit(workspace, {GiB, 64 * MiB})}};
}

case_result run_broadcast(session &session) {
    const environment &environment = session.environment;
    if (environment.report.device_count < 2) return skipped("needs two devices");
    environment.need({"cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"});
    const peer_devices peers = open_peers(environment, session.workspace.largest);
    const access_between_devices access(environment);
    case_result result = session.begin(
        {.note =
             access.text() +
             ";\nfrom the host to all devices, or from one device to all others; sizes and GB/s count the source "
             "once;\nraw: one call for each destination, on a stream of its device, and events, so that the stream of "
             "ferry's call waits for all;\nfor pageable memory one thread for each call, without events, which is "
             "also the last column for the other rows;\nferry: one ferry_copy_pieces_async, on a stream of device " +
             std::to_string(environment.device) +
             "; both until all bytes have arrived;\nceiling: H2D for each device, and from a device the best "
             "cuMemcpyDtoDAsync of at least 64 MiB to one other",
         .label_columns = {"source", "destinations", raw_call_column},
         .reference_column = "no order"});
    for (const broadcast &each : all_broadcasts(session, peers))
        for (const std::size_t size : each.sizes) {
            session.progress.show("broadcast", each.source_name, size);
            result.rows.push_back(measure(session, each, size));
        }
    return result;
}

} // namespace
} // namespace of_broadcast

const bench_case broadcast_case = {"broadcast", "the same 256 KiB to 1 GiB to every device at the same time",
                                   of_broadcast::run_broadcast};

} // namespace bench
