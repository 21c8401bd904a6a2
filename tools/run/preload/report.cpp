// The report at exit: a summary on standard error, and a JSON file.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "driver.h"
#include "names.h"
#include "own_file.h"
#include "record.h"
#include "say.h"
#include "settings.h"

namespace ferry_run {

namespace {

using json = nlohmann::ordered_json;

constexpr const char *size_names[size_classes] = {"below 4 KiB",   "below 64 KiB", "below 1 MiB",   "below 16 MiB",
                                                  "below 256 MiB", "below 4 GiB",  "4 GiB and more"};

void add(tally &to, const tally &more) {
    to.calls += more.calls;
    to.bytes += more.bytes;
    to.time_ns += more.time_ns;
    to.saved_ns += more.saved_ns;
}

struct line {
    traffic kind;
    outcome result;
    unsigned size;
    tally sum;
};

std::vector<line> read_lines() {
    std::vector<line> lines;
    for (unsigned kind = 0; kind < static_cast<unsigned>(traffic::count); ++kind)
        for (unsigned result = 0; result < static_cast<unsigned>(outcome::count); ++result)
            for (unsigned size = 0; size < size_classes; ++size) {
                const line one = {static_cast<traffic>(kind), static_cast<outcome>(result), size,
                                  read_tally(static_cast<traffic>(kind), static_cast<outcome>(result), size)};
                if (one.sum.calls) lines.push_back(one);
            }
    return lines;
}

template <class Accept> tally sum_of(const std::vector<line> &lines, const Accept &accept) {
    tally sum;
    for (const line &one : lines)
        if (accept(one)) add(sum, one.sum);
    return sum;
}

// Copies and fills. Allocations transfer no bytes.
bool is_copy(const line &one) { return one.kind != traffic::pinned_allocation; }
bool would_serve(const line &one) {
    return is_copy(one) && (one.result == outcome::report_only_staged || one.result == outcome::report_only_kernel ||
                            one.result == outcome::report_only_other);
}

bool is_on_software_driver() {
    const driver *const known = the_known_driver();
    return known && known->is_software;
}

std::string program_name() {
    static char path[4096]; // static, because a thread with a small stack may end the process
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) return "?";
    path[length] = '\0';
    const char *const slash = std::strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// The libraries through which programs call the driver.
bool is_part_of_cuda(const std::string &name) {
    for (const char *prefix : {"libferry-run.so", "libcudart.so", "libcuda.so"})
        if (name.starts_with(prefix)) return true;
    return false;
}

std::string module_at(const void *address) {
    Dl_info found;
    if (!dladdr(address, &found) || !found.dli_fname || !*found.dli_fname) return "";
    const char *const slash = std::strrchr(found.dli_fname, '/');
    return slash ? slash + 1 : found.dli_fname;
}

// The innermost module that is not part of CUDA.
std::string module_of(const call_site &site) {
    for (const void *frame : site.frames) {
        const std::string name = frame ? module_at(frame) : "";
        if (!name.empty() && !is_part_of_cuda(name)) return name;
    }
    return "?";
}

// ---- Text

// Like printf's %f, which would write a decimal comma in some locales.
std::string decimal(double value, int digits) {
    char text[32];
    const std::uint64_t unit = digits == 2 ? 100 : digits == 1 ? 10 : 1;
    const auto scaled = static_cast<std::uint64_t>(value * static_cast<double>(unit) + 0.5);
    const unsigned long long whole = scaled / unit, rest = scaled % unit;
    digits ? std::snprintf(text, sizeof text, "%llu.%0*llu", whole, digits, rest)
           : std::snprintf(text, sizeof text, "%llu", whole);
    return text;
}

std::string quantity(double value, const char *const (&units)[4]) {
    unsigned unit = 0;
    for (; value >= 1000 && unit < 3; ++unit)
        value /= 1000;
    return decimal(value, value < 10 ? 2 : value < 100 ? 1 : 0) + " " + units[unit];
}
std::string bytes_text(std::uint64_t bytes) { return quantity(static_cast<double>(bytes), {"B", "kB", "MB", "GB"}); }
std::string time_text(std::uint64_t ns) { return quantity(static_cast<double>(ns), {"ns", "us", "ms", "s"}); }

std::string row(const char *name, const tally &sum) {
    char text[160];
    const double rate = sum.time_ns ? static_cast<double>(sum.bytes) / static_cast<double>(sum.time_ns) : 0;
    std::snprintf(text, sizeof text, "  %-46s %10llu %10s %10s", name, static_cast<unsigned long long>(sum.calls),
                  bytes_text(sum.bytes).c_str(), sum.time_ns ? time_text(sum.time_ns).c_str() : "-");
    std::string whole = text;
    if (rate > 0) {
        std::snprintf(text, sizeof text, " %9s GB/s", decimal(rate, 2).c_str());
        whole += text;
    }
    return whole + "\n";
}

struct module_calls {
    std::string module;
    const char *function;
    bool is_served;
    tally calls;
};

// The call sites with the most time. Sites of the same module and function are combined.
std::vector<module_calls> read_modules() {
    static call_site sites[max_sites];
    tally others[2];
    const unsigned count = read_sites(sites, others);
    std::vector<module_calls> modules;
    for (const bool is_served : {false, true})
        if (others[is_served].calls) modules.push_back({"others", "any", is_served, others[is_served]});
    for (unsigned i = 0; i < count; ++i) {
        const module_calls one = {module_of(sites[i]), symbol_of(sites[i].function), sites[i].is_served,
                                  sites[i].calls};
        const auto same = std::find_if(modules.begin(), modules.end(), [&](const module_calls &known) {
            return known.module == one.module && known.function == one.function && known.is_served == one.is_served;
        });
        if (same == modules.end())
            modules.push_back(one);
        else
            add(same->calls, one.calls);
    }
    std::sort(modules.begin(), modules.end(), [](const module_calls &one, const module_calls &other) {
        return one.calls.time_ns > other.calls.time_ns;
    });
    return modules;
}

std::string summary_of(const std::vector<line> &lines) {
    const tally all = sum_of(lines, is_copy);
    const tally served = sum_of(lines, [](const line &one) { return is_copy(one) && is_served(one.result); });
    const tally wanted = sum_of(lines, would_serve);
    std::string text = "ferry-run: " + program_name() + " (process " + std::to_string(getpid()) + ")";
    text += is_on_software_driver() ? " on ferry's software driver: no savings are predicted\n" : "\n";
    char head[128];
    std::snprintf(head, sizeof head, "  %-46s %10s %10s %10s %14s\n", "", "calls", "bytes", "in calls", "");
    text += head;
    text += row("copies and fills", all);
    text += row("served by ferry", served);
    for (unsigned size = 0; size < size_classes; ++size)
        if (const tally sum = sum_of(lines, [&](const line &one) { return is_copy(one) && one.size == size; });
            sum.calls)
            text += row(size_names[size], sum);
    for (unsigned kind = 0; kind < std::size(kind_names); ++kind)
        for (unsigned result = 0; result < std::size(result_names); ++result) {
            const tally sum = sum_of(lines, [&](const line &one) {
                return static_cast<unsigned>(one.kind) == kind && static_cast<unsigned>(one.result) == result;
            });
            if (!sum.calls) continue;
            const bool served_here = is_served(static_cast<outcome>(result));
            const std::string name =
                std::string(kind_names[kind]) + (served_here ? ": " : ", left: ") + result_names[result];
            text += row(name.c_str(), sum);
        }
    if (served.saved_ns) text += "  predicted to have saved " + time_text(served.saved_ns) + "\n";
    if (wanted.saved_ns) text += "  ferry is predicted to save " + time_text(wanted.saved_ns) + "\n";
    const std::vector<module_calls> modules = read_modules();
    if (!modules.empty()) text += "  slowest callers (calls of 0.5 ms and more)\n";
    for (std::size_t i = 0; i < modules.size() && i < 5; ++i)
        text += row((modules[i].module + " " + modules[i].function + (modules[i].is_served ? " (ferry)" : "")).c_str(),
                    modules[i].calls);
    return text;
}

// ---- JSON

json to_json(const tally &sum) {
    return {
        {"calls", sum.calls}, {"bytes", sum.bytes}, {"time_ns", sum.time_ns}, {"predicted_saving_ns", sum.saved_ns}};
}

std::string json_of(const std::vector<line> &lines) {
    json report = {{"program", program_name()},
                   {"process", getpid()},
                   {"driver", nullptr},
                   {"mode", the_settings().mode == mode::report_only ? "report-only" : "serve"}};
    if (the_known_driver()) report["driver"] = is_on_software_driver() ? "software" : "NVIDIA";
    report["copies"] = to_json(sum_of(lines, is_copy));
    report["served"] = to_json(sum_of(lines, [](const line &one) { return is_copy(one) && is_served(one.result); }));
    report["left"] = to_json(sum_of(lines, [](const line &one) { return is_copy(one) && !is_served(one.result); }));
    report["would_serve"] = to_json(sum_of(lines, would_serve));
    report["calls"] = json::array();
    for (const line &one : lines) {
        json entry = {{"kind", kind_names[static_cast<unsigned>(one.kind)]},
                      {"outcome", result_names[static_cast<unsigned>(one.result)]},
                      {"served", is_served(one.result)},
                      {"size", size_names[one.size]}};
        entry.update(to_json(one.sum));
        report["calls"].push_back(entry);
    }
    report["slow_callers"] = json::array();
    for (const module_calls &one : read_modules()) {
        json entry = {{"module", one.module}, {"function", one.function}, {"served", one.is_served}};
        entry.update(to_json(one.calls));
        report["slow_callers"].push_back(entry);
    }
    return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

void write_file(const std::string &text) {
    static own_file file;
    const char *why = file.open(the_settings().report);
    if (!why) why = file.write(text.data(), text.size());
    const char *const at_close = file.is_open() ? file.close() : nullptr;
    if (!why) why = at_close;
    if (why) say(("ferry-run: cannot write the report to " + std::string(file.name()) + ": " + why + "\n").c_str());
}

// Runs after the program's own exit handlers. Processes without such calls print nothing.
__attribute__((destructor)) void tell() {
    if (the_settings().mode == mode::off) return;
    try {
        const std::vector<line> lines = read_lines();
        if (!lines.empty() && !the_settings().is_quiet) say(summary_of(lines).c_str());
        if (the_settings().report && (!lines.empty() || is_first_process())) write_file(json_of(lines));
    } catch (const std::exception &) { // out of memory
    }
}

} // namespace

} // namespace ferry_run
