// Timing: several ways to do one thing, interleaved sample by sample, and what their samples say.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace bench {

// Nanoseconds on a clock that only goes forward.
double now_ns();

// One way to do the thing.
struct contender {
    const char *name;
    std::function<void()> run;
    int calls = 1;                   // how many calls one run makes: a sample is the time of one of them
    std::function<void()> settle{};  // untimed, after each run: waits for what the run left in flight
    std::function<void()> prepare{}; // untimed, before each run: makes what the run is to find
};

// A sample is the mean of `calls` calls in a row, without waiting in between. As callers do, a call may keep what it
// changes, such as an error info.
template <typename Call> contender burst(const char *name, int calls, Call call, std::function<void()> settle = {}) {
    const auto run = [calls, call]() mutable {
        for (int i = 0; i < calls; ++i)
            call();
    };
    return {name, run, calls, std::move(settle)};
}

// A round runs every contender twice. Rounds end when the budget is spent, within these bounds.
struct effort {
    int least_rounds;
    int most_rounds;
    double budget_ns;
};

// The samples of one contender in nanoseconds; 2 r and 2 r + 1 are those of round r.
using samples = std::vector<double>;

// Warms up, then measures: a round goes through the contenders forwards and then backwards, each round beginning with
// the next one, so that neither drift nor the place in the order favours any of them.
std::vector<samples> interleave(std::span<const contender> contenders, const effort &effort);

// The spread that is printed and judged by is the interquartile range, p25 to p75.
struct distribution {
    double p10, p25, median, p75, p90, p99, least;
    std::size_t count;
};
distribution summarise(samples values);

// The ratio is raw time / ferry time; above 1 ferry is faster. The rounds are cut into up to 40 blocks in the order
// they ran; each block gives one ratio, that of its two medians, so both sides of a ratio saw the same moments of the
// machine. What is reported is the median of the blocks' ratios with their spread, and not one ratio of two overall
// medians.
struct comparison {
    distribution raw_ns, ferry_ns, ratio;
};
comparison compare(const samples &raw, const samples &ferry);

enum class verdict { ok, noise, lost }; // from good to bad
const char *name_of(verdict verdict);

// Against the target, or 1 where there is none: ok if the ratio's whole interquartile range keeps to it, lost if the
// whole range is below it, noise if the difference is smaller than the spread.
verdict judge(const distribution &ratio, std::optional<double> target);
// The same of a time that is to be no longer than `most_ns`.
verdict judge_at_most(const distribution &time_ns, double most_ns);

// What one may take more than another: a share of the other's time, and a time that does not grow with it.
struct allowance {
    double share, fixed_ns;
};
// The target that says so: the least ratio of the other's time to the one's.
double target_of(const allowance &more, double other_ns);
// Of two verdicts about one thing, both of which have to be good.
verdict worse_of(verdict one, verdict other);
// Either of which is enough.
verdict better_of(verdict one, verdict other);

} // namespace bench
