#include "report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>
#include <set>

#include "../version.h"
#include "text_table.h"
#include "trace.h"
#include "units.h"

namespace bench {

namespace {

double bandwidth(const row &row, const distribution &time_ns) {
    return static_cast<double>(row.bytes) / time_ns.median;
}

std::string ratio_text(const distribution &ratio) {
    return text("%.3f [%.3f..%.3f]", ratio.median, ratio.p25, ratio.p75);
}

// A table has a column if any of its rows has the corresponding value.
template <class Member> bool has(const case_result &result, Member member) {
    return std::any_of(result.rows.begin(), result.rows.end(),
                       [&](const row &row) { return (row.*member).has_value(); });
}

constexpr std::int32_t shown_routes[] = {FERRY_ROUTE_DRIVER, FERRY_ROUTE_KERNEL};

std::string route_text(const route_choice &choice, std::int32_t route) {
    const auto found = std::find_if(choice.routes.begin(), choice.routes.end(),
                                    [&](const route_choice::route &each) { return each.which == route; });
    if (found == choice.routes.end()) return "-";
    const std::string time = time_text(found->time_ns.median);
    return found->predicted_ns > 0 ? time + " (" + time_text(found->predicted_ns) + ')' : time;
}

std::vector<std::string> wide_column_names(const case_result &result) {
    std::vector<std::string> names = result.label_columns;
    names.insert(names.end(), {"size", "raw", "ferry"});
    if (has(result, &row::max_ns)) names.emplace_back("ferry p99");
    if (!result.reference_column.empty()) names.push_back(result.reference_column);
    if (has(result, &row::ceiling))
        names.insert(names.end(), {"raw GB/s", "ferry GB/s", "ceiling GB/s"});
    else
        names.emplace_back("ferry - raw");
    names.insert(names.end(), {"raw/ferry", "target"});
    if (has(result, &row::of_link)) names.insert(names.end(), {"of link", "target"});
    if (has(result, &row::choice)) {
        names.emplace_back("route");
        for (const std::int32_t route : shown_routes)
            names.push_back(text("by %s", name_of_route(route)));
        names.insert(names.end(), {"best/ferry", "target"});
    }
    names.insert(names.end(), {"n", "target is"});
    return names;
}

std::string target_text(const std::optional<double> &ratio) { return ratio ? text("%.3f", *ratio) : "-"; }

std::string target_text(const row &row) {
    return row.max_ns ? "at most " + time_text(*row.max_ns) : target_text(row.target);
}

std::string difference_text(double time_ns) { return (time_ns < 0 ? '-' : '+') + time_text(std::abs(time_ns)); }

std::vector<std::string> wide_cells(const case_result &result, const row &row, bool is_software) {
    std::vector<std::string> cells = row.labels;
    const distribution &raw = row.times.raw_ns, &ferry = row.times.ferry_ns;
    cells.insert(cells.end(), {size_text(row.bytes), spread_text(raw), spread_text(ferry)});
    if (has(result, &row::max_ns)) cells.push_back(row.max_ns ? time_text(ferry.p99) : "-");
    if (!result.reference_column.empty()) cells.push_back(row.reference_ns ? time_text(row.reference_ns->median) : "-");
    if (row.ceiling)
        cells.insert(cells.end(), {three_digits(bandwidth(row, raw)), three_digits(bandwidth(row, ferry)),
                                   three_digits(*row.ceiling)});
    else if (has(result, &row::ceiling))
        cells.insert(cells.end(), 3, "-");
    else
        cells.push_back(difference_text(ferry.median - raw.median));
    cells.insert(cells.end(), {ratio_text(row.times.ratio), target_text(row)});
    if (row.of_link)
        cells.insert(cells.end(), {ratio_text(row.of_link->share), target_text(row.of_link->target)});
    else if (has(result, &row::of_link))
        cells.insert(cells.end(), 2, "-");
    if (row.choice) {
        cells.emplace_back(row.choice->chosen ? name_of_route(*row.choice->chosen) : "-");
        for (const std::int32_t route : shown_routes)
            cells.push_back(route_text(*row.choice, route));
        cells.insert(cells.end(), {ratio_text(row.choice->ratio), text("%.3f", row.choice->target)});
    } else if (has(result, &row::choice)) {
        cells.insert(cells.end(), 3 + std::size(shown_routes), "-");
    }
    cells.insert(cells.end(), {text("%zu", raw.count), verdict_text(row.judged(), is_software)});
    return cells;
}

void print_numbers(std::ostream &out, const case_result &result) {
    std::vector<std::vector<std::string>> lines = {result.numbers.label_columns};
    lines.front().insert(lines.front().end(), result.numbers.number_columns.begin(),
                         result.numbers.number_columns.end());
    for (const number_table::line &line : result.numbers.lines) {
        lines.push_back(line.labels);
        for (const double number : line.numbers)
            lines.back().push_back(text("%.1f", number));
    }
    print_fitted_table(out, lines, result.numbers.label_columns.size());
}

// One letter for each box: the first letter of its route's name.
void print_route_map(std::ostream &out, const route_map &map) {
    out << '\n'
        << map.labels[0] << ", " << map.labels[1] << " memory, gaps at: " << map.labels[2]
        << "; down: " << map.rows.front() << " to " << map.rows.back() << " rows, across: rows of "
        << size_text(map.widths.front()) << " to " << size_text(map.widths.back()) << '\n';
    for (const std::vector<const char *> &line : map.routes) {
        for (const char *route : line)
            out << (route ? route[0] : ' ');
        out << '\n';
    }
}

// Removes the columns that contain targets, verdicts and ceilings. The software driver has none.
void remove_judgements(table_lines &lines) {
    const std::vector<std::string> names = lines.front();
    for (std::size_t i = names.size(); i-- > 0;)
        if (names[i] == "target" || names[i] == "target is" || names[i] == "verdict" || names[i] == "ceiling GB/s")
            for (std::vector<std::string> &line : lines)
                line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
}

table_lines wide_table(const case_result &result, bool is_software) {
    table_lines lines = {wide_column_names(result)};
    for (const row &row : result.rows)
        lines.push_back(wide_cells(result, row, is_software));
    return lines;
}

// The labels that a narrow table contains: the parameters of the rows, or all labels if rows have equal parameters.
std::vector<std::size_t> narrow_labels(const case_result &result) {
    std::vector<std::size_t> parameters, all;
    for (std::size_t i = 0; i < result.label_columns.size(); ++i) {
        all.push_back(i);
        if (!is_finding(result.label_columns[i])) parameters.push_back(i);
    }
    std::set<std::vector<std::string>> different;
    for (const row &row : result.rows) {
        std::vector<std::string> key = {size_text(row.bytes)};
        for (const std::size_t i : parameters)
            key.push_back(row.labels[i]);
        different.insert(std::move(key));
    }
    return different.size() == result.rows.size() ? parameters : all;
}

const char *verdict_cell(const row &row) {
    switch (row.outcome()) {
    case row_outcome::won:
        return "met";
    case row_outcome::lost:
        return "missed";
    case row_outcome::undecided:
        return "open";
    case row_outcome::at_ceiling:
        return "ceiling";
    default:
        return "-";
    }
}

table_lines narrow_table(const case_result &result) {
    const std::vector<std::size_t> labels = narrow_labels(result);
    const auto line_of = [&](const std::vector<std::string> &all, std::initializer_list<std::string> numbers) {
        std::vector<std::string> line;
        for (const std::size_t i : labels)
            line.push_back(all[i]);
        line.insert(line.end(), numbers);
        return line;
    };
    table_lines lines = {line_of(result.label_columns, {"size", "raw", "ferry", "raw/ferry", "target", "verdict"})};
    for (const row &row : result.rows) {
        const std::optional<double> target_ns = row.target_ns();
        lines.push_back(line_of(row.labels, {size_text(row.bytes), time_text(row.times.raw_ns.median),
                                             time_text(row.times.ferry_ns.median), text("%.3f", row.times.ratio.median),
                                             target_ns ? time_text(*target_ns) : "-", verdict_cell(row)}));
    }
    return lines;
}

void print_rows(std::ostream &out, const case_result &result, bool is_software, table_form form) {
    table_lines lines = form == table_form::wide ? wide_table(result, is_software) : narrow_table(result);
    const std::size_t left_count =
        form == table_form::wide ? result.label_columns.size() : narrow_labels(result).size();
    if (is_software) {
        remove_judgements(lines);
        if (form == table_form::narrow)
            for (std::vector<std::string> &line : lines)
                line.emplace_back(); // the last column is aligned to the left, unlike the ratios
    }
    if (form == table_form::wide)
        print_table(out, lines, left_count);
    else
        print_fitted_table(out, lines, left_count);
}

std::ptrdiff_t count_rows(const case_result &result, std::optional<verdict> judged) {
    return std::count_if(result.rows.begin(), result.rows.end(),
                         [&](const row &row) { return row.judged() == judged; });
}

void print_counts(std::ostream &out, const case_result &result) {
    out << "targets:";
    for (const verdict each : {verdict::met, verdict::within_spread, verdict::missed})
        out << (each == verdict::met ? " " : ", ") << count_rows(result, each) << ' ' << name_of(each);
    out << "; " << count_rows(result, std::nullopt) << " rows have no target\n";
}

} // namespace

const char *const software_sentence =
    "SOFTWARE DRIVER: the CPU makes all copies and runs all kernels, so the numbers show that every call works and "
    "what "
    "it costs on this processor, and say nothing about a GPU; no row has a ceiling, a target or a verdict.";

void print_heading(std::ostream &out, const run_info &run) {
    const environment &environment = run.environment;
    const bool is_software = environment.device_info.is_software;
    print_paragraph(out, "ferry " + ferry_version_text() + " beside the raw driver: " + environment.device_info.name +
                             " (" + environment.device_info.pci_address + "), CUDA " +
                             cuda_version_text(environment.report.driver_version) + ", " + run.date +
                             (run.is_quick ? ", quick" : ""));
    if (is_software) print_paragraph(out, software_sentence);
    if (is_tracing()) out << "TRACED: each of ferry's calls takes some microseconds longer than without --trace.\n";
    if (environment.report.fallback_reason)
        out << "No GPU: " << ferry_status_text(environment.report.fallback_reason) << '\n';
    out << "Opening: the first ferry_open with cuInit " << time_text(environment.first_open_ns) << "; later ferry_open "
        << time_text(run.opening.open_ns) << ", ferry_close " << time_text(run.opening.close_ns) << '\n';
    if (!is_software) {
        out << "Ceilings, the best raw pinned copy in this run:";
        for (const ceiling &ceiling : run.ceilings)
            out << "  " << ceiling.direction << ' ' << three_digits(ceiling.bandwidth) << " GB/s";
        out << '\n';
    }
    print_paragraph(out,
                    "Times are medians. raw/ferry: median of paired ratios, above 1 ferry is faster. All bytes that "
                    "a row moves were verified. --wide and --json have the routes, the spreads and more.");
    if (is_software) return;
    print_paragraph(out, "target: the longest time with which ferry meets all targets of the row. met: with all of the "
                         "middle half of the samples; missed: with none of it; open: with some of it, within the "
                         "spread; ceiling: not met, because the target requires a higher throughput than the ceiling.");
}

void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software,
                table_form form) {
    out << '\n';
    print_paragraph(out, std::string(which.name) + ": " + which.summary);
    print_paragraph(out, result.note);
    if (!result.numbers.lines.empty()) print_numbers(out, result);
    if (!result.route_maps.empty()) out << "d: driver, k: kernel, s: staged, b: buffered\n";
    for (const route_map &map : result.route_maps)
        print_route_map(out, map);
    if (result.rows.empty()) return;
    print_rows(out, result, is_software, form);
    if (!is_software) print_counts(out, result);
}

} // namespace bench
