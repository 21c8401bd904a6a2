#include "contest.h"

#include <algorithm>

namespace bench {

namespace {

// For copies of 40 us and more. ferry adds 0.1 to 0.4 us to a call between two waits (H200, 2026-11-21). With shorter
// copies, the verdict would depend on that overhead, which the case `submit` judges.
constexpr double min_ratio = 0.99;
constexpr double min_judged_ns = 40e3;

struct contest_effort {
    effort search, contest;
};
// The search only has to find a call that no other call clearly outperforms. 1 GiB gets 7 rounds, 14 samples. Several
// hundred rows at 90 ms take a minute.
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

// The samples of the contenders: the fastest raw call, then the others.
struct outcome {
    const char *raw_name;
    std::vector<samples> taken;
};

outcome contend(session &session, const task &task, std::span<const contender> raw, std::span<const contender> others,
                const contest_effort &effort) {
    if (raw.empty()) fail("the driver refuses every call that can make the copy: " + joined(task.labels));
    // Takes new samples: the raw call won the search with favourable samples, whereas ferry's call was not selected by
    // its samples.
    std::vector<contender> all = {raw[find_fastest(raw, effort.search)]};
    all.insert(all.end(), others.begin(), others.end());
    verify_each(session.workspace, task.boxes, all);
    return {all[0].name, interleave(all, effort.contest)};
}

row row_of(task task, const outcome &outcome) {
    std::size_t bytes = 0;
    for (const box &box : task.boxes)
        bytes += box.size.bytes();
    task.labels.emplace_back(outcome.raw_name);
    return {.labels = std::move(task.labels),
            .bytes = bytes,
            .times = compare(outcome.taken[0], outcome.taken[1]),
            .target = std::nullopt,
            .ceiling = task.ceiling};
}

} // namespace

row measure_beside_fastest(session &session, task task, std::span<const contender> raw, const contender &ferry) {
    const contest_effort &effort = session.is_quick ? quick_effort : full_effort;
    const outcome found = contend(session, task, raw, {&ferry, 1}, effort);
    row row = row_of(std::move(task), found);
    if (row.times.raw_ns.median >= min_judged_ns) row.target = min_ratio;
    return row;
}

row measure_routes(session &session, task task, double budget_ns) {
    const environment &environment = session.environment;
    const box box = task.boxes.front();
    const ferry_copy_desc copy = describe(box);
    std::vector<route_choice::route> routes;
    std::vector<contender> ferry = {ferry_contender(environment, box)};
    for (const std::int32_t route : {FERRY_ROUTE_DRIVER, FERRY_ROUTE_KERNEL}) {
        const copy_options forced = with_route(route);
        const std::optional<ferry_explanation> told = explain(environment, copy, forced);
        if (!told) continue;
        const std::uint64_t predicted = told->route == FERRY_ROUTE_KERNEL ? told->kernel_ns : told->driver_ns;
        routes.push_back({told->route, {}, static_cast<double>(predicted)});
        ferry.push_back(ferry_contender(environment, box, forced));
    }
    const int min_rounds = session.is_quick ? 1 : 3;
    const outcome found = contend(session, task, raw_contenders(environment, box), ferry,
                                  {{min_rounds, 100, budget_ns / 4}, {min_rounds, 400, budget_ns}});
    row row = row_of(std::move(task), found);
    row.choice = compare_routes(std::move(routes), std::span(found.taken).subspan(2), found.taken[1]);
    row.choice->chosen = explain(environment, copy)->route;
    return row;
}

route_choice compare_routes(std::vector<route_choice::route> routes, std::span<const samples> forced,
                            const samples &chosen, const allowance &more) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < routes.size(); ++i) {
        routes[i].time_ns = summarise(forced[i]);
        if (routes[i].time_ns.median < routes[best].time_ns.median) best = i;
    }
    const double target = target_of(more, routes[best].time_ns.median);
    return {.routes = std::move(routes),
            .chosen = std::nullopt,
            .ratio = compare(forced[best], chosen).ratio,
            .target = target};
}

double contest_budget_ns(const session &session) {
    return (session.is_quick ? quick_effort : full_effort).contest.budget_ns;
}

row measure_box(session &session, std::vector<std::string> labels, const box &box, double ceiling) {
    return measure_box(session, std::move(labels), box, ceiling, session.environment.stream.get());
}

row measure_box(session &session, std::vector<std::string> labels, const box &box, double ceiling, CUstream stream) {
    return measure_beside_fastest(session, {std::move(labels), {box}, ceiling},
                                  raw_contenders(session.environment, box, stream),
                                  ferry_contender(session.environment, box, {}, stream));
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
