#include "summary.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "text_table.h"
#include "units.h"

namespace bench {

namespace {

constexpr std::size_t screen_lines = 27;                     // of a summary
constexpr std::size_t least_worst_rows = 4, worst_rows = 10; // as many as the screen has lines for
constexpr std::size_t cases_in_one_column = 8;
constexpr std::size_t width_of_labels = 34; // leaves 100 columns for the other columns

constexpr row_outcome outcomes[] = {row_outcome::won, row_outcome::lost, row_outcome::undecided,
                                    row_outcome::at_ceiling, row_outcome::no_target};
using outcome_counts = std::array<std::size_t, std::size(outcomes)>;

outcome_counts count_outcomes(const case_result &result) {
    outcome_counts counts = {};
    for (const row &row : result.rows)
        ++counts[static_cast<std::size_t>(row.outcome())];
    return counts;
}

std::string text_of_counts(const char *name, const outcome_counts &counts) {
    return text("%-17s %4zu %4zu %4zu %7zu %6zu", name, counts[0], counts[1], counts[2], counts[3], counts[4]);
}

// A lost row, and how many times as long as its target ferry takes.
struct lost_row {
    const char *case_name;
    const bench::row *row;
    double slower;
};

std::vector<lost_row> lost_rows(const std::vector<measured_case> &cases) {
    std::vector<lost_row> lost;
    for (const measured_case &each : cases)
        for (const row &row : each.result.rows)
            if (row.outcome() == row_outcome::lost)
                lost.push_back({each.which->name, &row, row.times.ferry_ns.median / *row.target_ns()});
    std::stable_sort(lost.begin(), lost.end(),
                     [](const lost_row &one, const lost_row &other) { return one.slower > other.slower; });
    return lost;
}

void print_worst(std::ostream &out, const std::vector<lost_row> &lost, std::size_t count) {
    count = std::min(count, lost.size());
    out << "The worst " << count << " of " << lost.size() << " lost rows; slower: ferry / target:\n";
    table_lines lines = {{"case", "row", "size", "raw", "ferry", "target", "slower"}};
    for (std::size_t i = 0; i < count; ++i) {
        const row &row = *lost[i].row;
        lines.push_back({lost[i].case_name, shortened(names_of(row.labels), width_of_labels), size_text(row.bytes),
                         time_text(row.times.raw_ns.median), time_text(row.times.ferry_ns.median),
                         time_text(*row.target_ns()), three_digits(lost[i].slower) + 'x'});
    }
    print_fitted_table(out, lines, 2);
}

// Prints the counts of the cases that have rows, in one or two columns. Returns the number of lines.
std::size_t print_counts_of_cases(std::ostream &out, const std::vector<std::string> &counts) {
    const std::string names = "case               won lost open ceiling   none";
    const bool is_wide = counts.size() > cases_in_one_column;
    const std::size_t height = is_wide ? (counts.size() + 1) / 2 : counts.size();
    out << names << (is_wide ? "    " + names : "") << '\n';
    for (std::size_t i = 0; i < height; ++i)
        out << counts[i] << (is_wide && i + height < counts.size() ? "    " + counts[i + height] : "") << '\n';
    return height + 1;
}

// Prints a paragraph. Returns the number of lines.
std::size_t print_lines(std::ostream &out, const std::string &text) {
    print_paragraph(out, text);
    return wrapped(text, line_width).size();
}

} // namespace

std::string names_of(const std::vector<std::string> &names) {
    std::string all;
    for (const std::string &name : names)
        all += (all.empty() ? "" : ", ") + name;
    return all;
}

void print_summary(std::ostream &out, const std::vector<measured_case> &cases, bool is_software) {
    outcome_counts all = {};
    std::size_t rows = 0;
    std::vector<std::string> counts, without_rows;
    for (const measured_case &each : cases) {
        const outcome_counts found = count_outcomes(each.result);
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] += found[i];
        rows += each.result.rows.size();
        if (each.result.rows.empty())
            without_rows.emplace_back(each.which->name);
        else
            counts.push_back(text_of_counts(each.which->name, found));
    }
    const std::string measured = "Summary: " + counted(rows, "row") + " of " + counted(counts.size(), "case");
    const std::string other_cases = without_rows.empty() ? "" : " Cases without rows: " + names_of(without_rows) + '.';
    out << '\n';
    if (is_software) {
        print_paragraph(out, measured + ". No row is judged on the software driver." + other_cases);
        return;
    }
    std::size_t lines =
        print_lines(out, measured +
                             text(": %zu won, %zu lost, %zu open, %zu at the ceiling, %zu without a target.", all[0],
                                  all[1], all[2], all[3], all[4]) +
                             other_cases);
    lines += print_lines(out, "won: the target is met; lost: missed; open: within the spread; ceiling: the target "
                              "requires a higher throughput than the measured ceiling; none: no target.");
    if (!counts.empty()) lines += print_counts_of_cases(out, counts);
    const std::vector<lost_row> lost = lost_rows(cases);
    lines += 2; // the headings of the worst rows
    if (!lost.empty())
        print_worst(out, lost,
                    std::clamp(screen_lines > lines ? screen_lines - lines : 0, least_worst_rows, worst_rows));
}

} // namespace bench
