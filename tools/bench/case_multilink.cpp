// multilink: large copies between the host and one device that also use the links of other devices.
#include <cmath>

#include "case.h"
#include "compute.h"
#include "lines.h"
#include "peers.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_multilink {
namespace {

constexpr std::size_t MiB = 1 << 20, GiB = 1 << 30;

// Targets: the share of the links' total bandwidth, and the gain of staging over four links instead of one.
constexpr double min_share_of_links = 0.95, min_gain_of_staging = 1.8;
constexpr std::size_t links_for_that_gain = 4;

// Enables copies of the run's device to use the links of the first `count` peers, until destruction.
class helpers {
public:
    helpers(const environment &environment, const peer_devices &peers, std::size_t count, std::uint32_t max_sms = 0)
        : environment_(environment) {
        std::vector<std::int32_t> ordinals;
        for (std::size_t i = 0; i < count; ++i)
            ordinals.push_back(peers[i]->buffer.device);
        auto options = sized<ferry_multilink_options>();
        options.max_sms = max_sms;
        options.helpers = ordinals.data();
        options.helper_count = static_cast<std::uint32_t>(count);
        auto error = sized<ferry_error_info>();
        is_supported_ = is_supported(ferry_multilink_set(environment.basic.get(), environment.device, &options, &error),
                                     "ferry_multilink_set", error);
    }
    ~helpers() { ferry_multilink_set(environment_.basic.get(), environment_.device, nullptr, nullptr); }
    helpers(const helpers &) = delete;

    bool are_supported() const { return is_supported_; }

private:
    const environment &environment_;
    bool is_supported_;
};

enum class way { up, down };

// What all rows share. The pinned memory is large enough for a largest frame in one part per device.
struct setting {
    bench::session &session;
    const peer_devices &peers; // that may help
    buffer pinned;

    direction whole(way way, const buffer &host) const {
        const workspace &workspace = session.workspace;
        return way == way::up ? direction{"H2D", host, workspace.device_destination}
                              : direction{"D2H", workspace.device_source, host};
    }
    // Equal parts of `size` bytes, one for the run's device and one for each helper. Each part uses the link of its own
    // device.
    std::vector<transfer> parts(way way, std::size_t helper_count, std::size_t size) const {
        const environment &environment = session.environment;
        const std::size_t part = size / (helper_count + 1);
        std::vector<transfer> all;
        for (std::size_t i = 0; i <= helper_count; ++i) {
            buffer host = pinned;
            host.address += i * (part + guard);
            direction one = whole(way, host);
            if (i == 0) {
                all.push_back({one, part, environment.context.handle, environment.stream.get()});
                continue;
            }
            const peer_device &peer = *peers[i - 1];
            (way == way::up ? one.destination : one.source) = peer.buffer;
            all.push_back({one, part, peer.context.handle, peer.stream.get()});
        }
        return all;
    }
};

effort effort_of(const session &session) { return session.is_quick ? effort{3, 40, 0.015e9} : effort{7, 400, 0.3e9}; }

contender by_all_links(const environment &environment, const box &box) {
    return ferry_contender(environment, box, with_flags(FERRY_COPY_MULTILINK));
}

double ceiling_of_links(const session &session, const direction &direction, std::size_t links) {
    return ceiling_of(direction.name, session.ceilings) * static_cast<double>(links);
}

// Two rows from the same rounds: compared with copies by each device over its own link, and with the driver's copy over
// one link.
void measure_pinned(const setting &setting, way way, std::size_t helper_count, std::size_t size, row_list &rows) {
    session &session = setting.session;
    const environment &environment = session.environment;
    const direction whole = setting.whole(way, setting.pinned);
    session.progress.show("multilink", whole.text() + ", helpers: " + std::to_string(helper_count), size);
    const box copied = line(whole, size);
    const std::vector<transfer> parts = setting.parts(way, helper_count, size);
    std::vector<box> part_boxes;
    for (const transfer &part : parts)
        part_boxes.push_back(line(part.way, part.size));
    const contender all[] = {raw_transfers("cuMemcpy*Async by each device", environment, parts),
                             raw_line(environment, whole, form::async, size), by_all_links(environment, copied)};
    verify_each(session.workspace, part_boxes, {all, 1});
    verify_each(session.workspace, {&copied, 1}, {all + 1, 2});
    const std::vector<samples> taken = interleave(all, effort_of(session));
    const double ceiling = ceiling_of_links(session, whole, helper_count + 1);
    const auto add = [&](const char *raw_name, const samples &raw, std::optional<double> target) {
        rows.push_back({.labels = {whole.name, "pinned", std::to_string(helper_count), raw_name},
                        .bytes = size,
                        .times = compare(raw, taken[2]),
                        .target = target,
                        .ceiling = ceiling});
    };
    add("separate copies", taken[0], min_share_of_links);
    add("one link", taken[1], std::nullopt);
}

row measure_pageable(const setting &setting, std::size_t helper_count, std::size_t size) {
    session &session = setting.session;
    const direction whole = setting.whole(way::up, session.workspace.pageable);
    session.progress.show("multilink", whole.text(), size);
    const box copied = line(whole, size);
    const contender both[] = {ferry_contender(session.environment, copied), by_all_links(session.environment, copied)};
    verify_each(session.workspace, {&copied, 1}, both);
    const std::vector<samples> taken = interleave(both, effort_of(session));
    row found = {.labels = {whole.name, "pageable", std::to_string(helper_count), "ferry, one link"},
                 .bytes = size,
                 .times = compare(taken[0], taken[1]),
                 .ceiling = ceiling_of_links(session, whole, helper_count + 1)};
    if (helper_count + 1 >= links_for_that_gain) found.target = min_gain_of_staging;
    return found;
}

// A kernel that computes on all SMs of the first helper, concurrently with copies that may use some of these SMs. The
// helper's context must be current.
number_table::line measure_kernel(const setting &setting, const compute_kernel &kernel, const stopwatch &watch, way way,
                                  std::size_t helper_count, std::uint32_t max_sms) {
    session &session = setting.session;
    const environment &environment = session.environment;
    const peer_device &helper = *setting.peers.front();
    const box copied = line(setting.whole(way, setting.pinned), session.workspace.largest);
    const ferry_copy_desc copy = describe(copied);
    const copy_options over_links = with_flags(FERRY_COPY_MULTILINK);
    const contender one_copy = by_all_links(environment, copied);
    verify_each(session.workspace, {&copied, 1}, {&one_copy, 1});
    const auto compute_us = [&](int copies) {
        for (int i = 0; i < copies; ++i)
            ferry_copy_async_checked(environment.basic.get(), copy, environment.stream.get(), over_links);
        watch.note(0, helper.stream.get());
        kernel.launch(helper.stream.get());
        watch.note(1, helper.stream.get());
        check(environment.cu.cuStreamSynchronize(helper.stream.get()), "cuStreamSynchronize");
        drain(environment);
        return watch.us_between(0, 1);
    };
    const effort effort = session.is_quick ? bench::effort{2, 2, 0} : bench::effort{5, 5, 0};
    const double copy_us = summarise(interleave({&one_copy, 1}, effort)[0]).median / 1e3;
    compute_us(1); // warm-up
    // Enough copies to last as long as the kernel, even if it takes twice as long.
    const int copies = static_cast<int>(std::ceil(2 * compute_us(0) / copy_us)) + 1;
    samples alone, beside;
    for (int i = 0; i < (session.is_quick ? 3 : 11); ++i) {
        alone.push_back(compute_us(0));
        beside.push_back(compute_us(copies));
    }
    const double alone_us = summarise(alone).median, beside_us = summarise(beside).median;
    auto info = sized<ferry_device_info>();
    check(ferry_device_get_info(environment.basic.get(), helper.buffer.device, &info, nullptr), "ferry_device_get_info",
          {});
    return {{std::string(way == way::up ? "H2D " : "D2H ") + size_text(copied.size.bytes()),
             std::to_string(helper_count), std::to_string(max_sms)},
            {alone_us, beside_us, 100 * (beside_us / alone_us - 1), 100.0 * max_sms / info.sm_count, copy_us}};
}

number_table measure_interference(const setting &setting) {
    constexpr std::uint32_t max_sms = 16;
    const environment &environment = setting.session.environment;
    const std::size_t helper_count = setting.peers.size();
    const helpers all(environment, setting.peers, helper_count, max_sms);
    const current_context current(environment.cu, setting.peers.front()->context.handle);
    const compute_kernel kernel(environment);
    const stopwatch watch(environment, 2);
    number_table table = {.label_columns = {"copy", "helpers", "max SMs"},
                          .number_columns = {"compute us", "beside copies us", "compute slower by %",
                                             "max SMs % of all", "copy alone us"}};
    for (const way way : {way::up, way::down}) {
        setting.session.progress.show("multilink", "beside a kernel", setting.session.workspace.largest);
        table.lines.push_back(measure_kernel(setting, kernel, watch, way, helper_count, max_sms));
    }
    return table;
}

case_result run_multilink(session &session) {
    const environment &environment = session.environment;
    if (environment.report.device_count < 2) return skipped("needs two devices");
    environment.need({"cuCtxEnablePeerAccess", "cuCtxDisablePeerAccess"});
    const std::size_t largest = session.workspace.largest;
    const access_between_devices access(environment);
    peer_devices peers = open_peers(environment, largest);
    std::erase_if(peers,
                  [&](const auto &peer) { return !access.has_both_ways(environment.device, peer->buffer.device); });
    const std::string device = "device " + std::to_string(environment.device);
    if (peers.empty()) return skipped("no other device has peer access to and from " + device);
    if (!helpers(environment, peers, peers.size()).are_supported())
        return skipped("this driver has no copies over several links");

    case_result result = session.begin(
        {.note = "to and from " + device +
                 "; helpers: the number of other devices whose links are used;\nferry: ferry_copy_async with "
                 "FERRY_COPY_MULTILINK;\nraw, separate copies: each device copies an equal part of the bytes by "
                 "cuMemcpy*Async, at the same time;\nraw, one link: cuMemcpy*Async of all bytes; ferry, one link: "
                 "ferry_copy_async without the flag, staged;\nall times until the bytes have "
                 "arrived; ceiling: one link for each device",
         .label_columns = {"copy", "memory", "helpers", "raw"}});
    const owned<void *> memory = allocate_pinned(environment, largest + (peers.size() + 1) * guard);
    const setting setting = {session, peers, host_buffer(memory::pinned, memory.get())};
    for (std::size_t count = 1; count <= peers.size(); count = 2 * count + 1) {
        const helpers some(environment, peers, count);
        for (const way way : {way::up, way::down})
            for (const std::size_t size : sizes_that_fit(session.workspace, {GiB, 256 * MiB, 64 * MiB, 16 * MiB}))
                measure_pinned(setting, way, count, size, result.rows);
    }
    {
        const helpers all(environment, peers, peers.size());
        result.rows.push_back(measure_pageable(setting, peers.size(), largest));
    }
    const std::string why = why_no_computing(environment);
    if (!why.empty()) {
        result.note += "\nskipped: copies beside a kernel: " + why;
        return result;
    }
    result.note += "\nThe first table: a kernel that computes on all SMs of device " +
                   std::to_string(peers.front()->buffer.device) +
                   ", beside copies that may use some SMs of each helper";
    result.numbers = measure_interference(setting);
    return result;
}

} // namespace
} // namespace of_multilink

const bench_case multilink_case = {"multilink", "16 MiB to 1 GiB over the links of several devices",
                                   of_multilink::run_multilink};

} // namespace bench
