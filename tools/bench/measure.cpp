#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace bench {

namespace {

bool has_budgets = true;

double time_one_run(const contender &contender) {
    if (contender.prepare) contender.prepare();
    const double start = now_ns();
    contender.run();
    const double spent = now_ns() - start;
    if (contender.finish) contender.finish();
    return spent / contender.calls;
}

void run_round(std::span<const contender> contenders, std::size_t first, std::vector<samples> &taken) {
    const std::size_t count = contenders.size();
    for (std::size_t step = 0; step < 2 * count; ++step) {
        const std::size_t position = step < count ? step : 2 * count - 1 - step;
        const std::size_t which = (first + position) % count;
        taken[which].push_back(time_one_run(contenders[which]));
    }
}

// Interpolates linearly between the two nearest samples.
double quantile(const samples &sorted, double fraction) {
    const double position = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], position - static_cast<double>(below));
}

distribution summarise_part(const samples &values, std::size_t first, std::size_t end) {
    const auto begin = values.begin();
    return summarise({begin + static_cast<std::ptrdiff_t>(first), begin + static_cast<std::ptrdiff_t>(end)});
}

distribution block_of(const samples &values, std::size_t block, std::size_t blocks) {
    return summarise_part(values, values.size() * block / blocks, values.size() * (block + 1) / blocks);
}

} // namespace

double now_ns() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ignore_budgets() { has_budgets = false; }

std::vector<samples> interleave(std::span<const contender> contenders, const effort &effort) {
    std::vector<samples> taken(contenders.size());
    const double budget_ns = has_budgets ? effort.budget_ns : 0;
    // A twentieth of the budget warms up caches, clocks and the driver's own pools.
    const double warm = now_ns() + budget_ns / 20;
    do
        run_round(contenders, 0, taken);
    while (now_ns() < warm);
    for (samples &each : taken)
        each.clear();

    const double end = now_ns() + budget_ns;
    for (int round = 0; round < effort.max_rounds && (round < effort.min_rounds || now_ns() < end); ++round)
        run_round(contenders, static_cast<std::size_t>(round) % contenders.size(), taken);
    return taken;
}

distribution summarise(samples values) {
    std::sort(values.begin(), values.end());
    return {quantile(values, 0.10), quantile(values, 0.25), quantile(values, 0.50), quantile(values, 0.75),
            quantile(values, 0.90), quantile(values, 0.99), values.front(),         values.size()};
}

comparison compare(const samples &raw, const samples &ferry) {
    const std::size_t rounds = raw.size() / 2, blocks = std::min<std::size_t>(rounds, 40);
    samples ratios;
    for (std::size_t block = 0; block < blocks; ++block) {
        const std::size_t first = 2 * (rounds * block / blocks), end = 2 * (rounds * (block + 1) / blocks);
        ratios.push_back(summarise_part(raw, first, end).median / summarise_part(ferry, first, end).median);
    }
    return {summarise(raw), summarise(ferry), summarise(ratios)};
}

comparison compare_blocks(const samples &raw, const samples &ferry, std::size_t max_blocks,
                          double distribution::*value) {
    const std::size_t blocks = std::min({max_blocks, raw.size(), ferry.size()});
    samples of_raw, of_ferry, ratios;
    for (std::size_t block = 0; block < blocks; ++block) {
        of_raw.push_back(block_of(raw, block, blocks).*value);
        of_ferry.push_back(block_of(ferry, block, blocks).*value);
        ratios.push_back(of_raw.back() / of_ferry.back());
    }
    return {summarise(of_raw), summarise(of_ferry), summarise(ratios)};
}

const char *name_of(verdict verdict) {
    switch (verdict) {
    case verdict::met:
        return "met";
    case verdict::missed:
        return "missed";
    default:
        return "within the spread";
    }
}

verdict judge(const distribution &ratio, double target) {
    if (ratio.p75 < target) return verdict::missed;
    return ratio.p25 >= target ? verdict::met : verdict::within_spread;
}

verdict judge_at_most(const distribution &time_ns, double max_ns) {
    if (time_ns.p25 > max_ns) return verdict::missed;
    return time_ns.p75 <= max_ns ? verdict::met : verdict::within_spread;
}

double target_of(const allowance &more, double other_ns) {
    return other_ns / (other_ns * (1 + more.share) + more.fixed_ns);
}

verdict worse_of(verdict one, verdict other) { return std::max(one, other); }

verdict better_of(verdict one, verdict other) { return std::min(one, other); }

} // namespace bench
