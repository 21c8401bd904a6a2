// Timing: several ways to perform one task, interleaved sample by sample, and the statistics of their samples.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bench {

// Nanoseconds of a monotonic clock.
double now_ns();

// One way to perform the task.
struct contender {
    const char *name;
    std::function<void()> run;
    int calls = 1;                   // calls per run: a sample is the time of one call
    std::function<void()> finish{};  // untimed, after each run: waits for work that the run left in flight
    std::function<void()> prepare{}; // untimed, before each run
};

// A sample is the mean of `calls` consecutive calls, without waiting in between. A call may keep state that it
// modifies, such as an error info, as real callers do.
template <typename Call> contender burst(const char *name, int calls, Call call, std::function<void()> finish = {}) {
    const auto run = [calls, call]() mutable {
        for (int i = 0; i < calls; ++i)
            call();
    };
    return {name, run, calls, std::move(finish)};
}

// A round runs every contender twice. Rounds end when the budget is spent, within these bounds.
struct effort {
    int min_rounds;
    int max_rounds;
    double budget_ns;
};

// The samples of one contender in nanoseconds. Round r has the samples 2 r and 2 r + 1.
using samples = std::vector<double>;

// For runs whose times do not matter: each measurement then ends after its minimum number of rounds.
void ignore_budgets();

// Warms up, then measures. A round runs the contenders forwards and then backwards, and each round starts with the next
// contender, so that neither drift nor the position in the order favours a contender.
std::vector<samples> interleave(std::span<const contender> contenders, const effort &effort);

// Reports and verdicts use the interquartile range, p25 to p75, as the spread.
struct distribution {
    double p10, p25, median, p75, p90, p99, least;
    std::size_t count;
};
distribution summarise(samples values);

// The ratio is raw time / ferry time; above 1 ferry is faster. The rounds are divided into up to 40 blocks in the order
// of their execution. Each block gives one ratio of its two medians, so both sides of a ratio were measured at the same
// time. The report contains the median of these ratios with their spread, not one ratio of two overall medians.
struct comparison {
    distribution raw_ns, ferry_ns, ratio;
};
comparison compare(const samples &raw, const samples &ferry);
// Compares samples that are no pairs, such as different numbers of them, by one value of each block: for example
// &distribution::p99. Both sides are divided, in the order of their execution, into equally many blocks: at most
// `max_blocks`, and no more than either side has samples. Neither may be empty.
comparison compare_blocks(const samples &raw, const samples &ferry, std::size_t max_blocks,
                          double distribution::*value);

enum class verdict { met, within_spread, missed }; // from good to bad
const char *name_of(verdict verdict);

// Judges a ratio against the target: met if the whole interquartile range meets it, missed if the whole range is below
// it.
verdict judge(const distribution &ratio, double target);
// Same as judge(), for a time that must not exceed `max_ns`.
verdict judge_at_most(const distribution &time_ns, double max_ns);

// How much longer one time may be than another: a share of the other time plus a fixed time.
struct allowance {
    double share, fixed_ns;
};
// The corresponding target: the minimum ratio of the other time to this time.
double target_of(const allowance &more, double other_ns);
// Combines two verdicts that must both be good.
verdict worse_of(verdict one, verdict other);
// Combines two verdicts of which one must be good.
verdict better_of(verdict one, verdict other);

} // namespace bench
