// peer: from one device to another, without peer access and with it.
#include "contest.h"
#include "report.h"

namespace bench {

namespace of_peer {
namespace {

// Turns peer access between two contexts on or off in both directions, and restores it on destruction.
class peer_access {
public:
    peer_access(const ferry::driver_table &cu, CUcontext here, CUcontext there, bool is_on) : cu_(cu), is_on_(is_on) {
        for (const auto &[from, to] : {std::pair(here, there), std::pair(there, here)}) {
            const CUresult result = set(from, to, is_on);
            if (result == CUDA_SUCCESS)
                changed_.push_back({from, to});
            else if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && result != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
                refusal_ = result;
        }
    }
    ~peer_access() {
        for (const auto &[from, to] : changed_)
            set(from, to, !is_on_);
    }
    peer_access(const peer_access &) = delete;

    // Turning access off cannot fail: where the driver has no peer access, access is off, whatever the driver returns.
    CUresult refusal() const { return is_on_ ? refusal_ : CUDA_SUCCESS; }

private:
    // Throws nothing, because the destructor calls it.
    CUresult set(CUcontext from, CUcontext to, bool is_on) noexcept {
        if (const CUresult failed = cu_.cuCtxPushCurrent(from)) return failed;
        const CUresult result = is_on ? cu_.cuCtxEnablePeerAccess(to, 0) : cu_.cuCtxDisablePeerAccess(to);
        cu_.cuCtxPopCurrent(&from);
        return result;
    }

    const ferry::driver_table &cu_;
    const bool is_on_;
    CUresult refusal_ = CUDA_SUCCESS;
    std::vector<std::pair<CUcontext, CUcontext>> changed_;
};

// A device other than the run's, with one buffer on it.
struct peer_device {
    peer_device(const session &session, int ordinal)
        : context(retain_primary(session.environment.cu, ordinal)), memory([&] {
              const current_context current(session.environment.cu, context.handle);
              return allocate_device(session.environment, session.workspace.largest);
          }()),
          buffer(device_buffer(memory.get(), ordinal, context.handle)) {}

    const primary_context context;
    const owned<CUdeviceptr> memory;
    const bench::buffer buffer;
};

enum class side { tight, pitched, array };
constexpr const char *side_names[] = {"tight", "pitched", "array"};

struct peer_box {
    const char *dimensions;
    extent size;
    side source, destination;
};
// Up to 32 MiB. That takes 80 us at 400 GB/s, between two H200s over NVLink 4, and 0.9 ms at 37 GB/s without access.
constexpr peer_box peer_boxes[] = {
    {"2D", {16, 64 << 10}, side::pitched, side::pitched},   {"2D", {256, 64 << 10}, side::pitched, side::tight},
    {"2D", {256, 64 << 10}, side::tight, side::pitched},    {"2D", {4096, 8192}, side::pitched, side::pitched},
    {"3D", {1024, 128, 256}, side::pitched, side::pitched}, {"3D", {1024, 128, 256}, side::tight, side::pitched},
    {"2D", {8192, 4096}, side::array, side::array},         {"3D", {1024, 128, 256}, side::array, side::array},
    {"3D", {1024, 128, 256}, side::tight, side::array},     {"3D", {1024, 128, 256}, side::array, side::tight},
};
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

// The values that all rows of one direction and one state of peer access share.
struct lane {
    bench::session &session;
    bench::direction direction;
    const char *access;
    double ceiling;
    std::vector<row> &rows;
};

void measure(const lane &lane, const std::vector<std::string> &labels, const box &box) {
    lane.session.progress.show("peer", lane.direction.name + (' ' + labels.front()), box.size.bytes());
    std::vector<std::string> all = {lane.direction.name, lane.access};
    all.insert(all.end(), labels.begin(), labels.end());
    lane.rows.push_back(measure_box(lane.session, std::move(all), box, lane.ceiling));
}

void measure_lines(const lane &lane) {
    for (std::size_t size = 64 << 10; size <= lane.session.workspace.largest; size *= lane.session.is_quick ? 16 : 4)
        measure(lane, {"1D", "", "tight", "tight"}, line(lane.direction, size));
}

void measure_peer_box(const lane &lane, const peer_box &described) {
    const environment &environment = lane.session.environment;
    const extent size = shortened(described.size, table_bytes(lane.session, way_of_bytes::devices));
    std::vector<array> arrays; // of this box
    const auto end = [&](side side, const buffer &buffer) {
        if (side == side::tight) return padded(buffer, size, 0, 0);
        if (side == side::pitched) return padded(buffer, size, row_padding, size.depth > 1 ? slice_padding : 0);
        const current_context current(environment.cu, buffer.context);
        arrays.push_back(make_array(environment, buffer, size, texel_size));
        return arrays.back().place;
    };
    const box box = {end(described.source, lane.direction.source),
                     end(described.destination, lane.direction.destination), size};
    measure(lane,
            {described.dimensions, dimensions_text(std::to_string(size.width) + " B", size),
             side_names[static_cast<int>(described.source)], side_names[static_cast<int>(described.destination)]},
            box);
}

void measure_with_access(session &session, const peer_device &peer, bool is_on, std::vector<row> &rows) {
    const workspace &workspace = session.workspace;
    const std::string here = std::to_string(session.environment.device), there = std::to_string(peer.buffer.device);
    const std::string names[] = {here + " to " + there, there + " to " + here};
    for (const direction &direction : {direction{names[0].c_str(), workspace.device_source, peer.buffer},
                                       direction{names[1].c_str(), peer.buffer, workspace.device_destination}}) {
        const double ceiling = measure_ceiling(session.environment, session.workspace, direction);
        const lane lane = {session, direction, is_on ? "on" : "off", ceiling, rows};
        measure_lines(lane);
        for (const peer_box &each : chosen(session, peer_boxes))
            measure_peer_box(lane, each);
    }
}

case_result run_peer(session &session) {
    const environment &environment = session.environment;
    case_result result = {
        .note = "on a stream of device " + std::to_string(environment.device) +
                "; access: whether peer access is enabled in both directions; pitched: 13 B between rows, and in\n3D 3 "
                "rows "
                "between slices; ceiling: the best cuMemcpyDtoDAsync of at least 64 MiB with that access\n" +
                contest_note,
        .label_columns = {"copy", "access", "box", "rows", "source", "destination", raw_call_column}};
    if (environment.report.device_count < 2) {
        result.note = "skipped: needs two devices";
        return result;
    }
    environment.need({"cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"});
    const peer_device peer(session, environment.device == 0 ? 1 : 0);
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
