#include "compare.h"

#include <algorithm>
#include <map>
#include <ostream>

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

numbered_rows rows_of(const json &results) {
    numbered_rows rows;
    std::map<row_key, int> seen;
    for (const json &which : results.at("cases"))
        for (const json &row : which.at("rows")) {
            const row_key key = key_of(which, row);
            rows.push_back({{key, seen[key]++}, &row});
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

const char *change_text(const distribution &before, const distribution &after) {
    if (after.p25 > before.p75) return "slower";
    return after.p75 < before.p25 ? "faster" : "";
}

void print_run(std::ostream &out, const char *name, const std::string &path, const json &results) {
    const json &machine = results.at("machine");
    out << name << "  " << path << ": ferry " << results.at("ferry_version").get<std::string>() << ", "
        << machine.at("device_name").get<std::string>() << ", CUDA " << cuda_version_text(machine.at("driver_version"))
        << ", " << results.at("date").get<std::string>() << (results.at("quick") ? ", quick" : "")
        << (results.value("complete", false) ? "" : ", incomplete") << '\n';
}

void print_differences(std::ostream &out, const json &before, const json &after) {
    for (const char *fact : {"device_name", "driver_version"})
        if (before.at("machine").at(fact) != after.at("machine").at(fact)) {
            out << "The machines differ, so the changes are not ferry's alone.\n";
            return;
        }
    if (before.at("machine").at("is_software")) out << "SOFTWARE DRIVER: these are not hardware figures.\n";
}

void compare(std::ostream &out, const std::string &before_path, const json &before, const std::string &after_path,
             const json &after) {
    const numbered_rows before_rows = rows_of(before), after_rows = rows_of(after);
    const std::map<std::pair<row_key, int>, const json *> found(after_rows.begin(), after_rows.end());
    std::vector<std::vector<std::string>> lines = {{"case", "row", "size", "A ferry", "B ferry", "change", "raw", ""}};
    int faster = 0, slower = 0;
    for (const auto &[key, row] : before_rows) {
        const auto same = found.find(key);
        if (same == found.end()) continue;
        const distribution a = read_times(row->at("ferry_ns")), b = read_times(same->second->at("ferry_ns"));
        const std::string change = change_text(a, b);
        faster += change == "faster";
        slower += change == "slower";
        lines.push_back(key.first);
        lines.back().insert(lines.back().end(),
                            {spread_text(a), spread_text(b), percent_text(a, b),
                             percent_text(read_times(row->at("raw_ns")), read_times(same->second->at("raw_ns"))),
                             change});
    }
    print_run(out, "A", before_path, before);
    print_run(out, "B", after_path, after);
    print_differences(out, before, after);
    out << "Medians [p25..p75] of ferry's times. change: of ferry's median from A to B; raw: the same for the "
           "driver's call.\nfaster and slower: no p25..p75 of A overlaps the p25..p75 of B.\n\n";
    print_table(out, lines, 2);
    const std::size_t both = lines.size() - 1;
    out << '\n'
        << both << " rows in both: " << faster << " faster, " << slower << " slower, "
        << both - static_cast<std::size_t>(faster + slower)
        << " within the spread; only in A: " << before_rows.size() - both << ", only in B: " << after_rows.size() - both
        << '\n';
}

} // namespace

void compare_results(std::ostream &out, const std::string &before_path, const std::string &after_path) {
    const json before = read_results(before_path), after = read_results(after_path);
    try {
        compare(out, before_path, before, after_path, after);
    } catch (const json::exception &missing) {
        fail(before_path + " or " + after_path + " lacks what a report of ferry-bench has: " + missing.what());
    }
}

} // namespace bench
