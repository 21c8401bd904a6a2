#include "contest.h"

#include <algorithm>

namespace bench {

namespace {

// Of copies of 40 us and more. What ferry adds to a call is 0.1 to 0.4 us between two waits (H200, 2026-11-21): of
// shorter ones that is what would be judged, and the case `submit` does.
constexpr double least_ratio = 0.99;
constexpr double least_judged_ns = 40e3;

struct contest_effort {
    effort search, contest;
};
// The search only has to find a call that none is clearly faster than. 7 rounds, 14 samples, of 1 GiB; some hundred
// rows at 90 ms take a minute.
constexpr contest_effort full_effort = {{3, 100, 0.02e9}, {7, 400, 0.07e9}};
constexpr contest_effort quick_effort = {{2, 20, 0.005e9}, {3, 40, 0.015e9}};

std::string joined(const std::vector<std::string> &labels) {
    std::string all;
    for (const std::string &label : labels)
        all += (all.empty() ? "" : ", ") + label;
    return all;
}

std::size_t find_fastest(std::span<const contender> raw, const effort &effort) {
    if (raw.size() == 1) return 0;
    std::vector<double> medians;
    for (samples &taken : interleave(raw, effort))
        medians.push_back(summarise(std::move(taken)).median);
    return static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
}

} // namespace

row measure_beside_fastest(session &session, task task, std::span<const contender> raw, const contender &ferry) {
    if (raw.empty()) fail("the driver refuses every call that would make a copy: " + joined(task.labels));
    std::vector<contender> all(raw.begin(), raw.end());
    all.push_back(ferry);
    verify_each(session.workspace, task.boxes, all);

    const contest_effort &effort = session.is_quick ? quick_effort : full_effort;
    const contender &fastest = raw[find_fastest(raw, effort.search)];
    // Fresh samples: those it won by were its lucky ones, and ferry's had no such choice.
    const contender pair[] = {fastest, ferry};
    const std::vector<samples> taken = interleave(pair, effort.contest);

    std::size_t bytes = 0;
    for (const box &box : task.boxes)
        bytes += box.size.bytes();
    task.labels.push_back(fastest.name);
    const comparison times = compare(taken[0], taken[1]);
    return {.labels = std::move(task.labels),
            .bytes = bytes,
            .times = times,
            .target = times.raw_ns.median >= least_judged_ns ? std::optional(least_ratio) : std::nullopt,
            .ceiling = task.ceiling};
}

row measure_box(session &session, std::vector<std::string> labels, const box &box, double ceiling) {
    return measure_beside_fastest(session, {std::move(labels), {box}, ceiling},
                                  raw_contenders(session.environment, box), ferry_contender(session.environment, box));
}

std::size_t table_bytes(const session &session, way_of_bytes way) {
    return std::min<std::size_t>(way == way_of_bytes::host ? 32 << 20 : 64 << 20,
                                 session.workspace.largest / (way == way_of_bytes::host ? 16 : 8));
}

std::string dimensions_text(std::string row, const extent &size) {
    for (const std::size_t more : {size.height, size.depth})
        if (more > 1) row += " x " + std::to_string(more);
    return row;
}

} // namespace bench
