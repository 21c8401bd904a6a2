// Tests the arithmetic of ferry-bench: ratios, targets and verdicts.
#include <gtest/gtest.h>

#include "../tools/bench/case.h"

namespace bench {
namespace {

samples around(double median, double spread) {
    samples values;
    for (int i = -10; i <= 10; ++i)
        values.push_back(median + spread * i / 10);
    return values;
}

distribution exactly(double value) { return summarise({value}); }

row row_of(double raw_ns, double ferry_ns) {
    return {.labels = {}, .bytes = 1, .times = compare({raw_ns, raw_ns}, {ferry_ns, ferry_ns}), .target = std::nullopt};
}

// A choice with `ratio` times the speed of the fastest route. The target is 0.9.
route_choice choice_of(double ratio) {
    return {.routes = {}, .chosen = FERRY_ROUTE_KERNEL, .ratio = exactly(ratio), .target = 0.9};
}

TEST(bench_arithmetic, a_target_allows_a_share_and_a_fixed_time_more) {
    const allowance more = {0.10, 100};
    EXPECT_DOUBLE_EQ(target_of(more, 1000), 1000.0 / 1200);
    EXPECT_NEAR(target_of(more, 1e9), 1 / 1.1, 1e-6);
    // Just within the allowance, and just past it.
    EXPECT_EQ(judge(compare({1000, 1000}, {1199, 1199}).ratio, target_of(more, 1000)), verdict::ok);
    EXPECT_EQ(judge(compare({1000, 1000}, {1201, 1201}).ratio, target_of(more, 1000)), verdict::lost);
}

TEST(bench_arithmetic, a_target_within_the_spread_is_noise) {
    EXPECT_EQ(judge(summarise(around(1, 0.1)), 1), verdict::noise);
    EXPECT_EQ(judge(summarise(around(1.2, 0.1)), 1), verdict::ok);
    EXPECT_EQ(judge(summarise(around(0.8, 0.1)), 1), verdict::lost);
    EXPECT_EQ(judge_at_most(summarise(around(100, 10)), 100), verdict::noise);
    EXPECT_EQ(judge_at_most(summarise(around(80, 10)), 100), verdict::ok);
    EXPECT_EQ(judge_at_most(summarise(around(120, 10)), 100), verdict::lost);
}

TEST(bench_arithmetic, the_worse_or_the_better_of_two_verdicts_is_found) {
    EXPECT_EQ(worse_of(verdict::ok, verdict::noise), verdict::noise);
    EXPECT_EQ(worse_of(verdict::lost, verdict::noise), verdict::lost);
    EXPECT_EQ(better_of(verdict::ok, verdict::noise), verdict::ok);
    EXPECT_EQ(better_of(verdict::lost, verdict::noise), verdict::noise);
}

TEST(bench_arithmetic, a_choice_must_keep_up_with_the_raw_call_and_the_best_route) {
    for (const auto &[raw_ns, ratio, expected] :
         {std::tuple{120.0, 1.0, verdict::ok}, {120.0, 0.5, verdict::lost}, {80.0, 1.0, verdict::lost}}) {
        row both = row_of(raw_ns, 100);
        both.target = 1;
        both.choice = choice_of(ratio);
        EXPECT_EQ(both.judged(), expected) << raw_ns << ' ' << ratio;
    }
}

TEST(bench_arithmetic, without_a_target_for_the_raw_call_only_the_choice_is_judged) {
    row one = row_of(80, 100);
    EXPECT_FALSE(one.has_target());
    EXPECT_EQ(one.judged(), verdict::lost);
    one.choice = choice_of(1);
    EXPECT_TRUE(one.has_target());
    EXPECT_EQ(one.judged(), verdict::ok);
}

TEST(bench_arithmetic, meeting_the_time_limit_or_the_best_route_is_enough) {
    for (const auto &[max_ns, ratio, expected] :
         {std::tuple{110.0, 0.5, verdict::ok}, {90.0, 0.95, verdict::ok}, {90.0, 0.5, verdict::lost}}) {
        row either = row_of(100, 100);
        either.max_ns = max_ns;
        either.choice = choice_of(ratio);
        EXPECT_EQ(either.judged(), expected) << max_ns << ' ' << ratio;
    }
}

TEST(bench_arithmetic, both_the_link_and_the_raw_call_must_be_kept_up_with) {
    for (const auto &[raw_ns, share, expected] :
         {std::tuple{120.0, 0.9, verdict::ok}, {120.0, 0.8, verdict::lost}, {80.0, 0.9, verdict::lost}}) {
        row both = row_of(raw_ns, 100);
        both.target = 1;
        both.of_link = {exactly(share), 0.85};
        EXPECT_EQ(both.judged(), expected) << raw_ns << ' ' << share;
    }
}

TEST(bench_arithmetic, a_share_of_the_link_is_judged_if_it_has_a_target) {
    row one = row_of(80, 100);
    one.of_link = {exactly(0.9), std::nullopt};
    EXPECT_FALSE(one.has_target());
    EXPECT_EQ(one.judged(), verdict::lost) << "ferry is slower than the raw call";
    one.of_link->target = 0.85;
    EXPECT_TRUE(one.has_target());
    EXPECT_EQ(one.judged(), verdict::ok) << "the raw call has no target";
    one.of_link->target = 0.95;
    EXPECT_EQ(one.judged(), verdict::lost);
}

TEST(bench_arithmetic, preparation_comes_before_each_run_and_is_not_timed) {
    int prepared = 0, ran = 0, unprepared = 0;
    const contender one = {"one",
                           [&] {
                               unprepared += prepared != ran + 1;
                               ++ran;
                           },
                           1,
                           {},
                           [&] {
                               ++prepared;
                               const double until = now_ns() + 2e6;
                               while (now_ns() < until) {
                               }
                           }};
    const std::vector<samples> taken = interleave({&one, 1}, {3, 3, 0});
    EXPECT_EQ(unprepared, 0);
    EXPECT_EQ(ran, 8) << "one warm-up round and three timed rounds";
    EXPECT_LT(summarise(taken[0]).least, 2e6);
}

TEST(bench_arithmetic, a_ratio_pairs_samples_of_the_same_time) {
    // For half of the time the machine is four times as slow, for both contenders.
    samples raw, ferry;
    for (int round = 0; round < 40; ++round) {
        const double slow = round < 20 ? 1 : 4;
        raw.insert(raw.end(), 2, 200 * slow);
        ferry.insert(ferry.end(), 2, 100 * slow);
    }
    const distribution ratio = compare(raw, ferry).ratio;
    EXPECT_DOUBLE_EQ(ratio.median, 2);
    EXPECT_DOUBLE_EQ(ratio.p25, 2);
    EXPECT_DOUBLE_EQ(ratio.p75, 2);
}

} // namespace
} // namespace bench
