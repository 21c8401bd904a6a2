#include "results.h"

#include <array>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>

#include <nlohmann/json.hpp>

#include "../pci_link.h"
#include "../version.h"
#include "trace.h"

namespace bench {

namespace {

constexpr const char *closing_of_case = "\n]}", *closing_of_run = "\n], \"complete\": false}\n";
constexpr const char *closing_of_complete_run = "\n], \"complete\": true }\n"; // as long as closing_of_run

template <typename Value> json or_null(const std::optional<Value> &value) { return value ? json(*value) : json(); }

json to_json(const distribution &values) {
    return {{"median", values.median}, {"p25", values.p25}, {"p75", values.p75},     {"p10", values.p10},
            {"p90", values.p90},       {"p99", values.p99}, {"least", values.least}, {"samples", values.count}};
}

json to_json(const link_share &of_link) {
    return {{"share", to_json(of_link.share)}, {"target", or_null(of_link.target)}};
}

json to_json(const route_choice &choice) {
    json routes;
    for (const route_choice::route &route : choice.routes)
        routes[name_of_route(route.which)] = {{"ns", to_json(route.time_ns)}, {"predicted_ns", route.predicted_ns}};
    return {{"chosen", choice.chosen ? json(name_of_route(*choice.chosen)) : json()},
            {"routes", routes},
            {"ratio", to_json(choice.ratio)},
            {"target", choice.target}};
}

json to_json(const std::vector<std::string> &label_columns, const row &row, bool is_software) {
    json labels;
    for (std::size_t i = 0; i < row.labels.size(); ++i)
        labels[label_columns[i]] = row.labels[i];
    return {{"labels", labels},
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
            {"target_ns", or_null(is_software ? std::nullopt : row.target_ns())},
            {"at_ceiling", !is_software && row.outcome() == row_outcome::at_ceiling},
            {"verdict", verdict_text(row.judged(), is_software)}};
}

json to_json(const number_table &numbers) {
    json lines = json::array();
    for (const number_table::line &line : numbers.lines) {
        json entry;
        for (std::size_t i = 0; i < line.labels.size(); ++i)
            entry["labels"][numbers.label_columns[i]] = line.labels[i];
        for (std::size_t i = 0; i < line.numbers.size(); ++i)
            entry[numbers.number_columns[i]] = line.numbers[i];
        lines.push_back(entry);
    }
    return lines;
}

// The processor's name, if Linux reports it.
json processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
            return line.substr(line.find(": ") + 2);
    return nullptr;
}

json to_json(const std::optional<pci_link> &link) {
    if (!link) return nullptr;
    return {{"gigatransfers_per_second", link->transfers},
            {"lanes", link->lanes},
            {"gigabytes_per_second", link->gigabytes_per_second()}};
}

json to_json(const route_map &map) {
    json routes = json::array();
    for (const std::vector<const char *> &line : map.routes) {
        routes.push_back(json::array());
        for (const char *route : line)
            routes.back().push_back(route ? json(route) : json());
    }
    return {{"copy", map.labels[0]},   {"memory", map.labels[1]}, {"gaps", map.labels[2]},
            {"row_bytes", map.widths}, {"rows", map.rows},        {"routes", routes}};
}

json describe_machine(const environment &environment) {
    const ferry_device_info &info = environment.device_info;
    return {{"device", environment.device},
            {"device_name", info.name},
            {"pci_address", info.pci_address},
            {"driver_version", environment.report.driver_version},
            {"is_software", info.is_software != 0},
            {"device_count", environment.report.device_count},
            {"device_memory_bytes", info.total_memory},
            {"sm_count", info.sm_count},
            {"copy_engines", info.copy_engine_count},
            // Read after copies, because an idle GPU lowers its link's speed.
            {"link", to_json(read_pci_links(info.pci_address).now)},
            {"processor", processor_name()},
            {"processors", std::thread::hardware_concurrency()},
            {"staging_threads", environment.report.staging_threads},
            {"staging_bytes", environment.report.staging_bytes}};
}

json to_json(const run_info &run) {
    const environment &environment = run.environment;
    json ceilings;
    for (const ceiling &ceiling : run.ceilings)
        ceilings[ceiling.direction] = ceiling.bandwidth;
    return {{"date", run.date},
            {"quick", run.is_quick},
            {"traced", is_tracing()},
            {"ferry_version", ferry_version_text()},
            {"machine", describe_machine(environment)},
            {"opening_ns",
             {{"first_open_with_cuInit", environment.first_open_ns},
              {"open", run.opening.open_ns},
              {"close", run.opening.close_ns}}},
            {"ceilings_gb_per_s", ceilings}};
}

// The members of an object without braces, one per line.
std::string members(const json &object) {
    std::string lines;
    for (const auto &[name, value] : object.items())
        lines += json(name).dump() + ": " + value.dump() + ",\n";
    return lines;
}

// Parses a document whose end is missing: removes the last line, which may be incomplete, and adds the closing
// brackets.
json parse_cut_off(std::string text) {
    text.resize(std::min(text.size(), text.rfind('\n')));
    if (!text.empty() && text.back() == ',') text.pop_back();
    for (const char *closing : {"]}]}", "]}", "}"}) {
        json found = json::parse(text + closing, nullptr, false);
        if (!found.is_discarded()) return found;
    }
    return {};
}

} // namespace

std::string today_utc() {
    const std::time_t now = std::time(nullptr);
    std::array<char, 32> line;
    std::strftime(line.data(), line.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
    return line.data();
}

const char *verdict_text(const std::optional<verdict> &verdict, bool is_software) {
    if (is_software) return "not judged";
    return verdict ? name_of(*verdict) : "no target";
}

results_file::results_file(std::string path)
    : path_(std::move(path)),
      is_file_(path_ != "-" && (!std::filesystem::exists(path_) || std::filesystem::is_regular_file(path_))) {
    if (path_ != "-" && !path_.empty()) file_.open(path_, std::ios::binary | std::ios::trunc);
    write("", std::string("{\"cases\": [") + closing_of_run);
}

void results_file::describe(const run_info &run) {
    is_software_ = run.environment.device_info.is_software;
    write("{\n" + members(to_json(run)) + "\"cases\": [", closing_of_run);
}

void results_file::begin_case(const bench_case &which) {
    const json heading = {{"name", which.name}, {"summary", which.summary}};
    std::string begun = heading.dump();
    begun.pop_back();
    write((is_first_case_ ? "\n" : ",\n") + begun + ", \"rows\": [", std::string(closing_of_case) + closing_of_run);
    is_first_case_ = false;
    is_first_row_ = true;
}

void results_file::add(const std::vector<std::string> &label_columns, const row &row) {
    write((is_first_row_ ? "\n" : ",\n") + to_json(label_columns, row, is_software_).dump(),
          std::string(closing_of_case) + closing_of_run);
    is_first_row_ = false;
}

void results_file::end_case(const case_result &result, double seconds) {
    json rest = {{"note", result.note}, {"seconds", seconds}};
    if (!result.numbers.lines.empty()) rest["numbers"] = to_json(result.numbers);
    for (const route_map &map : result.route_maps)
        rest["route_maps"].push_back(to_json(map));
    write("\n], " + rest.dump().substr(1), closing_of_run);
}

void results_file::complete() {
    is_complete_ = true;
    end_early();
}

void results_file::end_early() {
    const char *const closing = is_complete_ ? closing_of_complete_run : closing_of_run;
    if (is_file_)
        write("", closing);
    else
        write(closing, "");
}

json results_file::written() const {
    if (!is_file_ && !path_.empty()) return json::parse(text_);
    return json::parse(text_ + (is_complete_ ? closing_of_complete_run : closing_of_run));
}

void results_file::write(const std::string &text, const std::string &closing) {
    const auto end = static_cast<std::streamoff>(text_.size()); // offset of the closing brackets
    text_ += text;
    if (path_.empty()) return;
    std::ostream &out = path_ == "-" ? std::cout : file_;
    if (is_file_) out.seekp(end);
    const std::string written = is_file_ ? text + closing : text;
    if (!out.write(written.data(), static_cast<std::streamsize>(written.size())).flush())
        fail("cannot write " + (path_ == "-" ? "to stdout" : path_));
}

json read_results(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read " + path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    json found = json::parse(text, nullptr, false);
    if (found.is_discarded()) found = parse_cut_off(text);
    if (!found.is_object() || !found.contains("machine") || !found.contains("cases"))
        fail(path + " is not a report of ferry-bench: it must be a file that ferry-bench --json has written");
    return found;
}

} // namespace bench
