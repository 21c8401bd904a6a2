#include "report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ostream>

#include "../version.h"
#include "trace.h"
#include "units.h"

namespace bench {

namespace {

constexpr const char *no_hardware =
    "SOFTWARE DRIVER: the CPU makes the copies. These are not hardware figures, and no row is judged.";

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

std::vector<std::string> column_names(const case_result &result) {
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

std::vector<std::string> cells(const case_result &result, const row &row, bool is_software) {
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
    print_table(out, lines, result.numbers.label_columns.size());
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

// Rows of the software driver are not judged, so their targets would only confuse.
void remove_targets(std::vector<std::vector<std::string>> &lines) {
    const std::vector<std::string> names = lines.front();
    for (std::size_t i = names.size(); i-- > 0;)
        if (names[i] == "target" || names[i] == "target is")
            for (std::vector<std::string> &line : lines)
                line.erase(line.begin() + static_cast<std::ptrdiff_t>(i));
}

std::ptrdiff_t count_rows(const case_result &result, std::optional<verdict> judged) {
    return std::count_if(result.rows.begin(), result.rows.end(),
                         [&](const row &row) { return row.judged() == judged; });
}

void print_summary(std::ostream &out, const case_result &result) {
    out << "targets:";
    for (const verdict each : {verdict::met, verdict::within_spread, verdict::missed})
        out << (each == verdict::met ? " " : ", ") << count_rows(result, each) << ' ' << name_of(each);
    out << "; " << count_rows(result, std::nullopt) << " rows have no target\n";
}

} // namespace

void print_table(std::ostream &out, const std::vector<std::vector<std::string>> &lines, std::size_t left_count) {
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto &line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], width_of(line[i]));
    for (const auto &line : lines) {
        for (std::size_t i = 0; i + 1 < line.size(); ++i) {
            const std::string padding(widths[i] - width_of(line[i]), ' ');
            out << (i < left_count ? line[i] + padding : padding + line[i]) << "  ";
        }
        out << line.back() << '\n';
    }
}

void print_heading(std::ostream &out, const run_info &run) {
    const environment &environment = run.environment;
    out << "ferry " << ferry_version_text() << " beside the raw driver: " << environment.device_info.name << " ("
        << environment.device_info.pci_address << "), CUDA " << cuda_version_text(environment.report.driver_version)
        << ", " << run.date << (run.is_quick ? ", quick" : "") << '\n';
    if (environment.device_info.is_software) out << no_hardware << '\n';
    if (is_tracing()) out << "TRACED: each of ferry's calls takes some microseconds longer than without --trace.\n";
    if (environment.report.fallback_reason)
        out << "No GPU: " << ferry_status_text(environment.report.fallback_reason) << '\n';
    out << "Opening: the first ferry_open with cuInit " << time_text(environment.first_open_ns) << "; later ferry_open "
        << time_text(run.opening.open_ns) << ", ferry_close " << time_text(run.opening.close_ns) << '\n';
    out << "Ceilings, the best raw pinned copy in this run:";
    for (const ceiling &ceiling : run.ceilings)
        out << "  " << ceiling.direction << ' ' << three_digits(ceiling.bandwidth) << " GB/s";
    out << "\nTimes are medians [p25..p75]. raw/ferry: median of paired ratios, above 1 ferry is faster. n: samples. "
           "All "
           "bytes that a\nrow moves were verified.\n";
    if (environment.device_info.is_software)
        out << "Kernels and staging run on the CPU too, and are many times slower there than the software driver's own "
               "copies. By\ndefault ferry stages only after other work on a stream, where the driver's call would "
               "block its caller.\n";
    else
        out << "A target is a minimum of the ratio before it, or a maximum time for ferry. It is met if all of "
               "p25..p75 "
               "reaches it,\nmissed if none of p25..p75 does, and else within the spread.\n";
}

void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software) {
    out << '\n' << which.name << ": " << which.summary << '\n';
    if (is_software) out << no_hardware << '\n';
    out << result.note << '\n';
    if (!result.numbers.lines.empty()) print_numbers(out, result);
    if (!result.route_maps.empty()) out << "d: driver, k: kernel, s: staged, b: buffered\n";
    for (const route_map &map : result.route_maps)
        print_route_map(out, map);
    if (result.rows.empty()) return;
    std::vector<std::vector<std::string>> lines = {column_names(result)};
    for (const row &row : result.rows)
        lines.push_back(cells(result, row, is_software));
    if (is_software) remove_targets(lines);
    print_table(out, lines, result.label_columns.size());
    if (!is_software) print_summary(out, result);
}

} // namespace bench
