#include "report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <iostream>

#include <nlohmann/json.hpp>
#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace bench {

namespace {

constexpr const char *no_hardware = "SOFTWARE DRIVER: the CPU makes the copies. These are not hardware figures.";

template <typename... Values> std::string text(const char *format, Values... values) {
    std::array<char, 512> line = {}; // else GCC 11 warns
    std::snprintf(line.data(), line.size(), format, values...);
    return line.data();
}

std::string version_text(int version) { return text("%d.%d", version / 1000, version % 1000 / 10); }

std::string ferry_version_text() {
    const int version = ferry_version();
    return text("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

double bandwidth(const row &row, const distribution &time_ns) {
    return static_cast<double>(row.bytes) / time_ns.median;
}

std::string with_spread(const distribution &values, double unit, int digits) {
    return text("%.*f [%.*f..%.*f]", digits, values.median / unit, digits, values.p25 / unit, digits,
                values.p75 / unit);
}

// A table has a column if any of its rows has that value.
template <class Member> bool has(const case_result &result, Member member) {
    return std::any_of(result.rows.begin(), result.rows.end(),
                       [&](const row &row) { return (row.*member).has_value(); });
}

// Copies timed until arrival have a ceiling and are in microseconds. For calls the case decides by how long they take.
bool is_in_us(const case_result &result) { return result.is_in_us || has(result, &row::ceiling); }

constexpr std::int32_t shown_routes[] = {FERRY_ROUTE_DRIVER, FERRY_ROUTE_KERNEL};

std::string route_text(const route_choice &choice, std::int32_t route) {
    const auto found = std::find_if(choice.routes.begin(), choice.routes.end(),
                                    [&](const route_choice::route &each) { return each.which == route; });
    if (found == choice.routes.end()) return "-";
    const std::string time = text("%.2f", found->time_ns.median / 1e3);
    return time + (found->predicted_ns > 0 ? text(" (%.2f)", found->predicted_ns / 1e3) : "");
}

std::vector<std::string> column_names(const case_result &result) {
    std::vector<std::string> names = result.label_columns;
    const char *const unit = is_in_us(result) ? "us" : "ns";
    names.insert(names.end(), {"size", text("raw %s", unit), text("ferry %s", unit)});
    if (has(result, &row::max_ns)) names.push_back(text("p99 %s", unit));
    if (!result.reference_column.empty()) names.push_back(text("%s %s", result.reference_column.c_str(), unit));
    if (has(result, &row::ceiling))
        names.insert(names.end(), {"raw GB/s", "ferry GB/s", "ceiling"});
    else
        names.push_back("ferry - raw");
    names.insert(names.end(), {"raw/ferry", "target"});
    if (has(result, &row::of_link)) names.insert(names.end(), {"of link", "target"});
    if (has(result, &row::choice)) {
        names.push_back("route");
        for (const std::int32_t route : shown_routes)
            names.push_back(text("by %s us", name_of_route(route)));
        names.insert(names.end(), {"best/ferry", "target"});
    }
    names.insert(names.end(), {"n", "verdict"});
    return names;
}

std::string target_text(const std::optional<double> &ratio) { return ratio ? text("%.3f", *ratio) : "none"; }

std::string target_text(const row &row, double unit) {
    if (row.max_ns) return text("%.0f %s", *row.max_ns / unit, unit == 1 ? "ns" : "us");
    return target_text(row.target);
}

std::vector<std::string> cells(const case_result &result, const row &row) {
    std::vector<std::string> cells = row.labels;
    const distribution &raw = row.times.raw_ns, &ferry = row.times.ferry_ns;
    const double unit = is_in_us(result) ? 1e3 : 1;
    const int digits = is_in_us(result) ? 2 : 0;
    cells.insert(cells.end(), {size_text(row.bytes), with_spread(raw, unit, digits), with_spread(ferry, unit, digits)});
    if (row.max_ns)
        cells.push_back(text("%.*f", digits, ferry.p99 / unit));
    else if (has(result, &row::max_ns))
        cells.emplace_back("-");
    if (!result.reference_column.empty())
        cells.push_back(row.reference_ns ? text("%.*f", digits, row.reference_ns->median / unit) : "-");
    if (row.ceiling)
        cells.insert(cells.end(), {text("%.2f", bandwidth(row, raw)), text("%.2f", bandwidth(row, ferry)),
                                   text("%.2f", *row.ceiling)});
    else if (has(result, &row::ceiling))
        cells.insert(cells.end(), 3, "-");
    else
        cells.push_back(text("%+.*f", digits, (ferry.median - raw.median) / unit));
    cells.insert(cells.end(), {with_spread(row.times.ratio, 1, 3), target_text(row, unit)});
    if (row.of_link)
        cells.insert(cells.end(), {with_spread(row.of_link->share, 1, 3), target_text(row.of_link->target)});
    else if (has(result, &row::of_link))
        cells.insert(cells.end(), 2, "-");
    if (row.choice) {
        cells.emplace_back(row.choice->chosen ? name_of_route(*row.choice->chosen) : "-");
        for (const std::int32_t route : shown_routes)
            cells.push_back(route_text(*row.choice, route));
        cells.insert(cells.end(), {with_spread(row.choice->ratio, 1, 3), text("%.3f", row.choice->target)});
    } else if (has(result, &row::choice)) {
        cells.insert(cells.end(), 3 + std::size(shown_routes), "-");
    }
    cells.insert(cells.end(), {text("%zu", raw.count), name_of(row.judged())});
    return cells;
}

// Aligns the first `left_count` columns and the last one to the left, and the others, which are numbers, to the right.
void print_table(std::ostream &out, const std::vector<std::vector<std::string>> &lines, std::size_t left_count) {
    std::vector<std::size_t> widths(lines.front().size());
    for (const auto &line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    for (const auto &line : lines) {
        for (std::size_t i = 0; i + 1 < line.size(); ++i) {
            const std::string padding(widths[i] - line[i].size(), ' ');
            out << (i < left_count ? line[i] + padding : padding + line[i]) << "  ";
        }
        out << line.back() << '\n';
    }
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

std::ptrdiff_t count_rows(const case_result &result, verdict verdict, bool has_target) {
    return std::count_if(result.rows.begin(), result.rows.end(),
                         [&](const row &row) { return row.judged() == verdict && row.has_target() == has_target; });
}

template <typename Value> json or_null(const std::optional<Value> &value) { return value ? json(*value) : json(); }

json to_json(const distribution &values) {
    return {{"median", values.median}, {"p25", values.p25}, {"p75", values.p75},     {"p10", values.p10},
            {"p90", values.p90},       {"p99", values.p99}, {"least", values.least}, {"samples", values.count}};
}

json to_json(const link_share &of_link) {
    return {
        {"share", to_json(of_link.share)}, {"target", or_null(of_link.target)}, {"verdict", name_of(of_link.judged())}};
}

json to_json(const route_choice &choice) {
    json routes;
    for (const route_choice::route &route : choice.routes)
        routes[name_of_route(route.which)] = {{"ns", to_json(route.time_ns)}, {"predicted_ns", route.predicted_ns}};
    return {{"chosen", choice.chosen ? json(name_of_route(*choice.chosen)) : json()},
            {"routes", routes},
            {"ratio", to_json(choice.ratio)},
            {"target", choice.target},
            {"verdict", name_of(choice.judged())}};
}

} // namespace

#if defined(_WIN32)
progress::progress() : is_terminal_(_isatty(_fileno(stderr))) {}
#else
progress::progress() : is_terminal_(isatty(fileno(stderr))) {}
#endif

void progress::show(const char *case_name, const std::string &what, std::size_t size) {
    if (is_terminal_) std::cerr << "\r\033[K" << case_name << ": " << what << ' ' << size_text(size) << std::flush;
}

void progress::erase() {
    if (is_terminal_) std::cerr << "\r\033[K" << std::flush;
}

std::string size_text(std::size_t bytes) {
    static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 3; bytes /= 1024)
        ++unit;
    return text("%zu %s", bytes, units[unit]);
}

std::string today_utc() {
    const std::time_t now = std::time(nullptr);
    std::array<char, 32> line;
    std::strftime(line.data(), line.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    return line.data();
}

void print_heading(std::ostream &out, const run_info &run) {
    const environment &environment = run.environment;
    out << "ferry " << ferry_version_text() << " beside the raw driver: " << environment.device_info.name << " ("
        << environment.device_info.pci_address << "), CUDA " << version_text(environment.report.driver_version) << ", "
        << run.date << (run.is_quick ? ", quick" : "") << '\n';
    if (environment.device_info.is_software) out << no_hardware << '\n';
    if (environment.report.fallback_reason)
        out << "No GPU: " << ferry_status_text(environment.report.fallback_reason) << '\n';
    out << text("Opening: the first ferry_open with cuInit %.2f ms; later ferry_open %.1f us, ferry_close "
                "%.1f us\n",
                environment.first_open_ns / 1e6, run.opening.open_ns / 1e3, run.opening.close_ns / 1e3);
    out << "Ceilings, the best raw pinned copy in this run:";
    for (const ceiling &ceiling : run.ceilings)
        out << text("  %s %.2f GB/s", ceiling.direction, ceiling.bandwidth);
    out << "\nMedians [p25..p75]. raw/ferry: median of paired ratios, above 1 ferry is faster. The verdict\n"
           "compares p25..p75 of that ratio with the target, or with 1 if there is none: ok, the whole range meets "
           "it;\n"
           "lost, the whole range is below; noise, the target lies within the range. A target that is a time is the\n"
           "maximum for ferry, and ferry's time is judged. n: samples. All bytes that a row moves were verified.\n";
}

void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software) {
    out << '\n' << which.name << ": " << which.summary << '\n';
    if (is_software) out << no_hardware << '\n';
    out << result.note << '\n';
    if (!result.numbers.lines.empty()) print_numbers(out, result);
    if (result.rows.empty()) return;
    std::vector<std::vector<std::string>> lines = {column_names(result)};
    for (const row &row : result.rows)
        lines.push_back(cells(result, row));
    print_table(out, lines, result.label_columns.size());
    for (const bool has_target : {true, false})
        out << (has_target ? "with a target: " : "without: ") << count_rows(result, verdict::ok, has_target) << " ok, "
            << count_rows(result, verdict::noise, has_target) << " noise, "
            << count_rows(result, verdict::lost, has_target) << " lost" << (has_target ? "; " : "\n");
}

json to_json(const run_info &run) {
    const environment &environment = run.environment;
    json ceilings;
    for (const ceiling &ceiling : run.ceilings)
        ceilings[ceiling.direction] = ceiling.bandwidth;
    return {{"date", run.date},
            {"quick", run.is_quick},
            {"ferry_version", ferry_version_text()},
            {"machine",
             {{"device", environment.device},
              {"device_name", environment.device_info.name},
              {"pci_address", environment.device_info.pci_address},
              {"driver_version", environment.report.driver_version},
              {"is_software", environment.device_info.is_software != 0}}},
            {"opening_ns",
             {{"first_open_with_cuInit", environment.first_open_ns},
              {"open", run.opening.open_ns},
              {"close", run.opening.close_ns}}},
            {"ceilings_gb_per_s", ceilings}};
}

json to_json(const bench_case &which, const case_result &result) {
    json rows = json::array();
    for (const row &row : result.rows) {
        json labels;
        for (std::size_t i = 0; i < row.labels.size(); ++i)
            labels[result.label_columns[i]] = row.labels[i];
        rows.push_back({{"labels", labels},
                        {"bytes", row.bytes},
                        {"raw_ns", to_json(row.times.raw_ns)},
                        {"ferry_ns", to_json(row.times.ferry_ns)},
                        {"ratio", to_json(row.times.ratio)},
                        {"target", or_null(row.target)},
                        {"max_ns", or_null(row.max_ns)},
                        {"ceiling_gb_per_s", or_null(row.ceiling)},
                        {"reference_ns", row.reference_ns ? to_json(*row.reference_ns) : json()},
                        {"choice", row.choice ? to_json(*row.choice) : json()},
                        {"of_link", row.of_link ? to_json(*row.of_link) : json()},
                        {"verdict", name_of(row.judged())}});
    }
    json made = {{"name", which.name}, {"note", result.note}, {"rows", rows}};
    for (const number_table::line &line : result.numbers.lines) {
        json entry;
        for (std::size_t i = 0; i < line.labels.size(); ++i)
            entry["labels"][result.numbers.label_columns[i]] = line.labels[i];
        for (std::size_t i = 0; i < line.numbers.size(); ++i)
            entry[result.numbers.number_columns[i]] = line.numbers[i];
        made["numbers"].push_back(entry);
    }
    return made;
}

} // namespace bench
