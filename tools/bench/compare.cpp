#include "compare.h"

#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "../version.h"
#include "results.h"
#include "text_table.h"
#include "units.h"

namespace bench {

namespace {

// The case, the labels and the size.
using row_key = std::vector<std::string>;

row_key key_of(const json &which, const json &row) {
    std::string labels;
    for (const auto &[name, value] : row.at("labels").items())
        if (!is_finding(name)) labels += (labels.empty() ? "" : ", ") + value.get<std::string>();
    return {which.at("name"), labels, size_text(row.at("bytes"))};
}

// Rows with equal keys, such as one row per raw call, are distinguished by their order.
using numbered_rows = std::vector<std::pair<std::pair<row_key, int>, const json *>>;

numbered_rows rows_of(const json &results, const comparison_options &options) {
    numbered_rows rows;
    std::map<row_key, int> seen;
    for (const json &which : results.at("cases")) {
        if (!options.wants_case(which.at("name"))) continue;
        for (const json &row : which.at("rows")) {
            const row_key key = key_of(which, row);
            rows.push_back({{key, seen[key]++}, &row});
        }
    }
    return rows;
}

distribution read_times(const json &times) {
    distribution found = {};
    found.median = times.at("median");
    found.p25 = times.at("p25");
    found.p75 = times.at("p75");
    return found;
}

std::string percent_text(const distribution &before, const distribution &after) {
    return text("%+.1f %%", (after.median / before.median - 1) * 100);
}

enum class change { slower, faster, none };

change change_between(const distribution &before, const distribution &after) {
    if (after.p25 > before.p75) return change::slower;
    return after.p75 < before.p25 ? change::faster : change::none;
}

// A row of both runs.
struct row_pair {
    row_key key;
    distribution before, after, raw_before, raw_after; // of ferry, and of the driver's call

    double ratio() const { return after.median / before.median; }
    bench::change change() const { return change_between(before, after); }
};

struct matched_rows {
    std::vector<row_pair> pairs;
    std::size_t only_before, only_after;
};

matched_rows match(const json &before, const json &after, const comparison_options &options) {
    const numbered_rows before_rows = rows_of(before, options), after_rows = rows_of(after, options);
    const std::map<std::pair<row_key, int>, const json *> found(after_rows.begin(), after_rows.end());
    std::vector<row_pair> pairs;
    for (const auto &[key, row] : before_rows) {
        const auto same = found.find(key);
        if (same == found.end()) continue;
        const json &other = *same->second;
        pairs.push_back({key.first, read_times(row->at("ferry_ns")), read_times(other.at("ferry_ns")),
                         read_times(row->at("raw_ns")), read_times(other.at("raw_ns"))});
    }
    return {pairs, before_rows.size() - pairs.size(), after_rows.size() - pairs.size()};
}

// The rows that have changed in this way, the greatest change first.
std::vector<row_pair> changed(std::vector<row_pair> pairs, change how) {
    std::erase_if(pairs, [how](const row_pair &each) { return each.change() != how; });
    const auto greater = [how](const row_pair &one, const row_pair &other) {
        return how == change::faster ? one.ratio() < other.ratio() : one.ratio() > other.ratio();
    };
    std::stable_sort(pairs.begin(), pairs.end(), greater);
    return pairs;
}

std::vector<std::string> line_of(const row_pair &pair) {
    std::vector<std::string> line = pair.key;
    line.insert(line.end(), {spread_text(pair.before), spread_text(pair.after), percent_text(pair.before, pair.after),
                             percent_text(pair.raw_before, pair.raw_after)});
    return line;
}

void print_pairs(std::ostream &out, const char *heading, const std::vector<row_pair> &pairs) {
    if (pairs.empty()) return;
    out << '\n' << heading << ", " << pairs.size() << (pairs.size() == 1 ? " row:\n" : " rows:\n");
    table_lines lines = {{"case", "row", "size", "A ferry", "B ferry", "change", "raw", ""}};
    for (const row_pair &pair : pairs) {
        lines.push_back(line_of(pair));
        lines.back().emplace_back();
    }
    print_fitted_table(out, lines, 2);
}

void print_counts_by_case(std::ostream &out, const std::vector<row_pair> &pairs) {
    std::vector<std::string> names;
    std::map<std::string, std::array<std::size_t, 3>> counts;
    for (const row_pair &pair : pairs) {
        if (!counts.count(pair.key[0])) names.push_back(pair.key[0]);
        ++counts[pair.key[0]][static_cast<std::size_t>(pair.change())];
    }
    table_lines lines = {{"case", "matched", "slower", "faster", "within the spread", ""}};
    for (const std::string &name : names) {
        const auto &[slower, faster, none] = counts[name];
        lines.push_back({name, std::to_string(slower + faster + none), std::to_string(slower), std::to_string(faster),
                         std::to_string(none), ""});
    }
    out << '\n';
    print_fitted_table(out, lines, 1);
}

void print_run(std::ostream &out, const char *letter, const compared_run &run) {
    const json &results = run.results, &machine = results.at("machine");
    out << letter << "  " << run.name << ": ferry " << results.at("ferry_version").get<std::string>() << ", "
        << machine.at("device_name").get<std::string>() << ", CUDA " << cuda_version_text(machine.at("driver_version"))
        << ", " << results.at("date").get<std::string>() << (results.at("quick") ? ", quick" : "")
        << (results.value("complete", false) ? "" : ", incomplete") << '\n';
}

void print_differences(std::ostream &out, const json &before, const json &after) {
    if (before.at("quick") != after.at("quick"))
        out << "Only one of the runs is quick, so they have few rows in common.\n";
    for (const char *fact : {"device_name", "driver_version"})
        if (before.at("machine").at(fact) != after.at("machine").at(fact)) {
            out << "The machines differ, so the changes are not ferry's alone.\n";
            return;
        }
    if (before.at("machine").at("is_software")) out << "SOFTWARE DRIVER: these are not hardware figures.\n";
}

} // namespace

compared_run read_run(const std::string &path) {
    compared_run run = {path, read_results(path)};
    try {
        std::ostringstream ignored;
        print_run(ignored, "", run);
        print_differences(ignored, run.results, run.results);
        match(run.results, run.results, {.wants_case = [](const std::string &) { return true; }});
    } catch (const json::exception &missing) {
        fail(path + " lacks what a report of ferry-bench has: " + missing.what());
    }
    return run;
}

void compare_results(std::ostream &out, const compared_run &before, const compared_run &after,
                     const comparison_options &options) {
    const matched_rows rows = match(before.results, after.results, options);
    const std::vector<row_pair> slower = changed(rows.pairs, change::slower),
                                faster = changed(rows.pairs, change::faster);
    print_run(out, "A", before);
    print_run(out, "B", after);
    print_differences(out, before.results, after.results);
    print_paragraph(
        out,
        "Times are medians of ferry [p25..p75]. change: how ferry's median changes from A to B. raw: how "
        "the median of the driver's call changes. A row is slower or faster if p25..p75 of A and p25..p75 of B do not "
        "overlap. Otherwise its change is within the spread.");
    print_pairs(out, "Slower", slower);
    print_pairs(out, "Faster", faster);
    if (options.has_all_rows) print_pairs(out, "Within the spread", changed(rows.pairs, change::none));
    if (!rows.pairs.empty()) print_counts_by_case(out, rows.pairs);
    out << '\n'
        << rows.pairs.size() << " rows in both: " << faster.size() << " faster, " << slower.size() << " slower, "
        << rows.pairs.size() - faster.size() - slower.size() << " within the spread; only in A: " << rows.only_before
        << ", only in B: " << rows.only_after << '\n';
}

} // namespace bench
