// Tests the arithmetic of ferry-bench: ratios, targets, verdicts, units, tables and the time left.
#include <sstream>

#include <gtest/gtest.h>

#include "../tools/bench/case.h"
#include "../tools/bench/progress.h"
#include "../tools/bench/summary.h"
#include "../tools/bench/text_table.h"
#include "../tools/bench/units.h"

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
    EXPECT_EQ(judge(compare({1000, 1000}, {1199, 1199}).ratio, target_of(more, 1000)), verdict::met);
    EXPECT_EQ(judge(compare({1000, 1000}, {1201, 1201}).ratio, target_of(more, 1000)), verdict::missed);
}

TEST(bench_arithmetic, blocks_of_different_numbers_of_samples_are_compared) {
    const samples many = around(100, 0), one = {50};
    for (const auto &[raw, ferry, ratio] : {std::tuple{many, one, 2.0}, {one, many, 0.5}}) {
        const comparison found = compare_blocks(raw, ferry, 10, &distribution::p99);
        EXPECT_EQ(found.ratio.count, 1u);
        EXPECT_DOUBLE_EQ(found.ratio.median, ratio);
    }
    const comparison found = compare_blocks({1, 1, 1, 9, 9, 9}, {2, 2, 3, 3}, 2, &distribution::median);
    EXPECT_DOUBLE_EQ(found.raw_ns.median, 5);
    EXPECT_DOUBLE_EQ(found.ferry_ns.median, 2.5);
    EXPECT_DOUBLE_EQ(found.ratio.least, 0.5);
    EXPECT_EQ(found.ratio.count, 2u);
}

TEST(bench_arithmetic, a_target_within_the_spread_is_neither_met_nor_missed) {
    EXPECT_EQ(judge(summarise(around(1, 0.1)), 1), verdict::within_spread);
    EXPECT_EQ(judge(summarise(around(1.2, 0.1)), 1), verdict::met);
    EXPECT_EQ(judge(summarise(around(0.8, 0.1)), 1), verdict::missed);
    EXPECT_EQ(judge_at_most(summarise(around(100, 10)), 100), verdict::within_spread);
    EXPECT_EQ(judge_at_most(summarise(around(80, 10)), 100), verdict::met);
    EXPECT_EQ(judge_at_most(summarise(around(120, 10)), 100), verdict::missed);
}

TEST(bench_arithmetic, the_worse_or_the_better_of_two_verdicts_is_found) {
    EXPECT_EQ(worse_of(verdict::met, verdict::within_spread), verdict::within_spread);
    EXPECT_EQ(worse_of(verdict::missed, verdict::within_spread), verdict::missed);
    EXPECT_EQ(better_of(verdict::met, verdict::within_spread), verdict::met);
    EXPECT_EQ(better_of(verdict::missed, verdict::within_spread), verdict::within_spread);
}

TEST(bench_arithmetic, a_choice_must_keep_up_with_the_raw_call_and_the_best_route) {
    for (const auto &[raw_ns, ratio, expected] :
         {std::tuple{120.0, 1.0, verdict::met}, {120.0, 0.5, verdict::missed}, {80.0, 1.0, verdict::missed}}) {
        row both = row_of(raw_ns, 100);
        both.target = 1;
        both.choice = choice_of(ratio);
        EXPECT_EQ(both.judged(), expected) << raw_ns << ' ' << ratio;
    }
}

TEST(bench_arithmetic, without_a_target_for_the_raw_call_only_the_choice_is_judged) {
    row one = row_of(80, 100);
    EXPECT_EQ(one.judged(), std::nullopt) << "slower than the raw call, but without a target";
    one.choice = choice_of(1);
    EXPECT_EQ(one.judged(), verdict::met);
}

TEST(bench_arithmetic, meeting_the_time_limit_or_the_best_route_is_enough) {
    for (const auto &[max_ns, ratio, expected] :
         {std::tuple{110.0, 0.5, verdict::met}, {90.0, 0.95, verdict::met}, {90.0, 0.5, verdict::missed}}) {
        row either = row_of(100, 100);
        either.max_ns = max_ns;
        either.choice = choice_of(ratio);
        EXPECT_EQ(either.judged(), expected) << max_ns << ' ' << ratio;
    }
}

TEST(bench_arithmetic, the_share_of_a_ceiling_turns_times_into_shares) {
    const distribution ns = {
        .p10 = 100, .p25 = 125, .median = 200, .p75 = 250, .p90 = 400, .p99 = 500, .least = 80, .count = 9};
    const distribution share = share_of_ceiling(2, 200, ns, {}).share; // 100 ns at 2 B/ns
    EXPECT_EQ(share.least, 0.2);
    EXPECT_EQ(share.p10, 0.25);
    EXPECT_EQ(share.p25, 0.4);
    EXPECT_EQ(share.median, 0.5);
    EXPECT_EQ(share.p75, 0.8);
    EXPECT_EQ(share.p90, 1);
    EXPECT_EQ(share.p99, 1.25);
    EXPECT_EQ(share.count, 9u);
}

TEST(bench_arithmetic, both_the_link_and_the_raw_call_must_be_kept_up_with) {
    for (const auto &[raw_ns, share, expected] :
         {std::tuple{120.0, 0.9, verdict::met}, {120.0, 0.8, verdict::missed}, {80.0, 0.9, verdict::missed}}) {
        row both = row_of(raw_ns, 100);
        both.target = 1;
        both.of_link = {exactly(share), 0.85};
        EXPECT_EQ(both.judged(), expected) << raw_ns << ' ' << share;
    }
}

TEST(bench_arithmetic, a_share_of_the_link_is_judged_if_it_has_a_target) {
    row one = row_of(80, 100);
    one.of_link = {exactly(0.9), std::nullopt};
    EXPECT_EQ(one.judged(), std::nullopt) << "ferry is slower than the raw call, but without a target";
    one.of_link->target = 0.85;
    EXPECT_EQ(one.judged(), verdict::met) << "the raw call has no target";
    one.of_link->target = 0.95;
    EXPECT_EQ(one.judged(), verdict::missed);
}

TEST(bench_arithmetic, one_time_meets_all_targets_of_a_row) {
    row one = row_of(120, 100);
    EXPECT_EQ(one.target_ns(), std::nullopt);
    one.target = 1.5;
    EXPECT_DOUBLE_EQ(*one.target_ns(), 80);
    one.choice = choice_of(0.45); // the best route takes 45 ns, so the target is 50 ns
    EXPECT_DOUBLE_EQ(*one.target_ns(), 50) << "both are necessary";
    one.of_link = {exactly(0.2), 0.5};
    EXPECT_DOUBLE_EQ(*one.target_ns(), 40) << "the link is the limit";
    one.of_link->target = std::nullopt;
    one.max_ns = 70;
    EXPECT_DOUBLE_EQ(*one.target_ns(), 70) << "the time or the best route is sufficient";
}

TEST(bench_arithmetic, a_target_beyond_the_ceiling_is_not_lost) {
    for (const auto &[ceiling, expected] :
         {std::pair{std::optional<double>(), row_outcome::lost},
          {1 / 70.0, row_outcome::lost},
          {1 / 90.0, row_outcome::at_ceiling}}) { // one byte takes 70 ns or 90 ns, and the target is 80 ns
        row missed = row_of(120, 100);
        missed.target = 1.5;
        missed.ceiling = ceiling;
        EXPECT_EQ(missed.outcome(), expected);
        missed.target = 1;
        EXPECT_EQ(missed.outcome(), row_outcome::won) << "a met target is never beyond the ceiling";
        missed.target = std::nullopt;
        EXPECT_EQ(missed.outcome(), row_outcome::no_target);
    }
    row slower_than_driver = row_of(60, 100);
    slower_than_driver.target = 1;
    slower_than_driver.ceiling = 1 / 90.0;
    EXPECT_EQ(slower_than_driver.outcome(), row_outcome::lost) << "the driver has exceeded the ceiling";
    row undecided = row_of(100, 100);
    undecided.times.ratio = summarise(around(1, 0.1));
    undecided.target = 1;
    EXPECT_EQ(undecided.outcome(), row_outcome::undecided);
}

std::string printed(const table_lines &lines, std::size_t left_count) {
    std::ostringstream out;
    print_fitted_table(out, lines, left_count);
    return out.str();
}

TEST(bench_arithmetic, a_text_is_wrapped_at_spaces) {
    using lines = std::vector<std::string>;
    EXPECT_EQ(wrapped("a bb ccc", 4), (lines{"a bb", "ccc"}));
    EXPECT_EQ(wrapped("a\nb", 9), (lines{"a b"}));
    EXPECT_EQ(wrapped("", 9), (lines{""}));
    EXPECT_EQ(wrapped("µµµµµ x", 2), (lines{"µµ", "µµ", "µ", "x"})) << "a longer word is cut between characters";
    EXPECT_EQ(wrapped("aaaa", 2), (lines{"aa", "aa"}));
}

TEST(bench_arithmetic, a_table_that_fits_is_not_wrapped) {
    EXPECT_EQ(printed({{"two words", "number", "end"}, {"a", "12.5 µs", "b"}}, 1),
              "two words   number  end\na          12.5 µs  b\n");
}

TEST(bench_arithmetic, a_table_that_is_too_wide_wraps_its_labels) {
    const std::string label(12, 'x'), labels = label + ' ' + label + ' ' + label;
    table_lines lines = {{"a", "b", "c", "size", "ratio of both", "end"}};
    lines.push_back({labels, labels, labels, "16 MiB", "1.234", "within the spread"});
    std::istringstream all(printed(lines, 3));
    std::size_t labels_found = 0, numbers_found = 0;
    for (std::string line; std::getline(all, line);) {
        EXPECT_LE(width_of(line), line_width) << line;
        for (std::size_t at = line.find(label); at != std::string::npos; at = line.find(label, at + 1))
            ++labels_found;
        numbers_found += line.find("16 MiB") != std::string::npos && line.find("1.234") != std::string::npos;
    }
    EXPECT_EQ(labels_found, 9u) << "no word is cut";
    EXPECT_EQ(numbers_found, 1u) << "no number is cut";
    for (const std::size_t length : {30, 99, 300}) {
        std::istringstream cut(printed({std::vector<std::string>(8, std::string(length, 'y'))}, 4));
        for (std::string line; std::getline(cut, line);)
            EXPECT_LE(width_of(line), line_width) << length;
    }
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

TEST(bench_arithmetic, times_are_in_the_unit_that_fits) {
    for (const auto &[time_ns, expected] : {std::pair{78.94, "78.9 ns"},
                                            {999.4, "999 ns"},
                                            {999.6, "1.00 µs"},
                                            {27500.0, "27.5 µs"},
                                            {999'400.0, "999 µs"},
                                            {999'600.0, "1.00 ms"},
                                            {384e6, "384 ms"},
                                            {1.5e9, "1.50 s"}})
        EXPECT_EQ(time_text(time_ns), expected);
    distribution around_a_unit = exactly(1e3);
    around_a_unit.p25 = 990;
    around_a_unit.p75 = 1.2e6;
    EXPECT_EQ(spread_text(around_a_unit), "1.00 [0.99..1200] µs") << "one unit for the three";
    EXPECT_EQ(width_of("27.5 µs"), 7u);
}

TEST(bench_arithmetic, small_numbers_keep_their_digits) {
    for (const auto &[value, expected] :
         {std::pair{0.0, "0.00"}, {0.00123, "0.0012"}, {0.5, "0.50"}, {9.96, "10.0"}, {99.6, "100"}, {2098.4, "2098"}})
        EXPECT_EQ(three_digits(value), expected);
}

TEST(bench_arithmetic, waiting_times_are_in_words) {
    for (const auto &[seconds, expected] :
         {std::pair{0.2, "1 s"}, {59.0, "59 s"}, {59.9, "1 min"}, {100.0, "2 min"}, {3900.0, "1 h 5 min"}})
        EXPECT_EQ(duration_text(seconds), expected);
}

TEST(bench_arithmetic, the_time_left_follows_the_completed_cases) {
    constexpr run_kind quick_on_gpu = {.is_quick = true, .is_software = false};
    const std::vector<std::string> cases = {"linear", "strided", "batch"};
    const double linear = expected_seconds("linear", quick_on_gpu), strided = expected_seconds("strided", quick_on_gpu),
                 batch = expected_seconds("batch", quick_on_gpu);
    time_estimate estimate(cases, quick_on_gpu);
    EXPECT_DOUBLE_EQ(estimate.seconds_left(0), linear + strided + batch);
    EXPECT_DOUBLE_EQ(estimate.seconds_left(linear / 2), linear / 2 + strided + batch);
    EXPECT_DOUBLE_EQ(estimate.seconds_left(10 * linear), strided + batch) << "the case takes longer than expected";
    estimate.complete_case(3 * linear);
    EXPECT_DOUBLE_EQ(estimate.seconds_left(0), 3 * (strided + batch)) << "this machine takes three times as long";
    estimate.complete_case(strided);
    estimate.complete_case(batch);
    EXPECT_EQ(estimate.seconds_left(0), 0);
    EXPECT_THROW(expected_seconds("no such case", quick_on_gpu), std::logic_error);
}

TEST(bench_arithmetic, a_long_run_on_a_gpu_is_expected_to_take_a_range_of_times) {
    const std::vector<std::string> cases = {"regret", "pageable"};
    EXPECT_EQ(expected_text(cases, {true, true}).rfind("about ", 0), 0u);
    EXPECT_EQ(expected_text(cases, {true, false}).rfind("about ", 0), 0u);
    EXPECT_NE(expected_text(cases, {false, false}).find(" to "), std::string::npos);
    EXPECT_GT(expected_seconds("regret", {false, true}), expected_seconds("regret", {true, true}));
    EXPECT_GT(expected_seconds("regret", {true, false}), expected_seconds("regret", {true, true}));
}

// ---- The summary

constexpr bench_case made_up_case = {"a-case-with-words", "", nullptr};

// A row that takes `slower` times as long as its target.
row judged_row(std::string label, double slower) {
    row one = row_of(100e3, slower * 100e3);
    one.labels = {std::move(label)};
    one.target = 1;
    return one;
}

measured_case case_of(std::vector<row> rows) {
    measured_case made = {&made_up_case, {.note = "", .label_columns = {"label"}}};
    for (row &row : rows)
        made.result.rows.push_back(std::move(row));
    return made;
}

std::vector<std::string> summary_of(const std::vector<measured_case> &cases, bool is_software = false) {
    std::stringstream out;
    print_summary(out, cases, is_software);
    std::vector<std::string> lines;
    for (std::string line; std::getline(out, line);) {
        EXPECT_LE(width_of(line), line_width) << line;
        lines.push_back(line);
    }
    return lines;
}

TEST(bench_arithmetic, a_summary_counts_the_rows_of_each_case_and_shows_the_worst_first) {
    row at_ceiling = judged_row("at the ceiling", 9);
    at_ceiling.target = 2;
    at_ceiling.ceiling = 1 / 70e3; // the byte takes 70 us, and the target is 50 us
    row without_target = judged_row("without a target", 9);
    without_target.target = std::nullopt;
    const std::vector<std::string> lines = summary_of(
        {case_of({judged_row("won", 0.5), judged_row("lost", 1.5), judged_row("worst", 4), at_ceiling, without_target}),
         case_of({})});
    const std::string name = made_up_case.name;
    ASSERT_EQ(lines.size(), 11u);
    EXPECT_EQ(lines[1] + ' ' + lines[2],
              "Summary: 5 rows of 1 case: 1 won, 2 lost, 0 open, 1 at the ceiling, 1 without a "
              "target. Cases without rows: " +
                  name + '.');
    EXPECT_EQ(lines[7].rfind("The worst 2 of 2 lost rows", 0), 0u) << lines[7];
    EXPECT_EQ(lines[9].rfind(name + "  worst", 0), 0u) << lines[9];
    EXPECT_NE(lines[9].find("400 µs  100 µs  4.00x"), std::string::npos) << lines[9];
}

TEST(bench_arithmetic, a_summary_of_all_cases_fits_on_a_screen) {
    std::vector<measured_case> cases;
    for (int i = 0; i < 31; ++i)
        cases.push_back(case_of({judged_row("won", 0.5), judged_row(std::string(200, 'x'), 1 + i)}));
    EXPECT_LE(summary_of(cases).size(), 30u);
    cases.resize(2);
    EXPECT_LE(summary_of(cases).size(), 24u);
}

TEST(bench_arithmetic, a_summary_of_the_software_driver_judges_nothing) {
    const std::vector<std::string> lines = summary_of({case_of({judged_row("lost", 2)})}, true);
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[1], "Summary: 1 row of 1 case. No row is judged on the software driver.");
}

} // namespace
} // namespace bench
