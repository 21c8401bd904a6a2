// ferry-bench: compares the raw driver calls with ferry's calls, on the same buffers in one run.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "../output.h"
#include "../version.h"
#include "case.h"
#include "compare.h"
#include "progress.h"
#include "report.h"
#include "report_page.h"
#include "second_process.h"
#include "system/windows_api.h"
#include "trace.h"

namespace bench {

namespace {

constexpr const bench_case *cases[] = {&linear_case,
                                       &submit_case,
                                       &strided_case,
                                       &volume_case,
                                       &routes_case,
                                       &regret_case,
                                       &peer_case,
                                       &relay_case,
                                       &broadcast_case,
                                       &multilink_case,
                                       &both_ways_case,
                                       &pinned_alloc_case,
                                       &register_case,
                                       &pinned_pool_case,
                                       &pool_alloc_case,
                                       &address_case,
                                       &ipc_open_case,
                                       &batch_case,
                                       &nests_case,
                                       &urgent_case,
                                       &interference_case,
                                       &pageable_case,
                                       &pageable_busy_case,
                                       &pageable_busy_gpu_case,
                                       &pageable_cold_case,
                                       &pageable_loops_case,
                                       &pageable_pieces_case,
                                       &pageable_devices_case,
                                       &file_case,
                                       &file_busy_case};

struct options {
    std::vector<std::string> cases; // empty: all
    bool is_quick = false, is_strict = false, only_list = false, shows_progress = false, is_wide = false;
    std::string json;                  // a file, "-" for stdout, or empty
    std::string report;                // an HTML file, or empty
    std::vector<std::string> compared; // two files, or empty
    std::string trace;                 // a file, or empty
    int device = 0;
    int importer_socket = -1; // set in a second process
    std::int32_t driver = FERRY_DRIVER_AUTO;
    std::string folder = std::filesystem::temp_directory_path().string();

    bool wants(const bench_case &which) const {
        return cases.empty() || std::find(cases.begin(), cases.end(), which.name) != cases.end();
    }
    table_form form() const { return is_wide ? table_form::wide : table_form::narrow; }
    std::vector<std::string> chosen_cases() const;
    // The page is created from a file.
    std::string json_path() const {
        if (report.empty() || !json.empty()) return json;
        return std::filesystem::path(report).replace_extension(".json").string();
    }
};

std::vector<std::string> options::chosen_cases() const {
    std::vector<std::string> names;
    for (const bench_case *each : bench::cases)
        if (wants(*each)) names.emplace_back(each->name);
    return names;
}

std::string case_list() {
    std::string list;
    for (const bench_case *each : cases) {
        std::string name = each->name;
        name.resize(18, ' ');
        list += name + each->summary + '\n';
    }
    return list;
}

void declare(CLI::App &app, options &options) {
    static const std::map<std::string, std::int32_t> drivers = {
        {"auto", FERRY_DRIVER_AUTO}, {"cuda", FERRY_DRIVER_CUDA}, {"software", FERRY_DRIVER_SOFTWARE}};
    std::vector<std::string> names;
    for (const bench_case *each : cases)
        names.push_back(each->name);
    app.add_option("--case", options.cases, "Run only this case; may be repeated")->check(CLI::IsMember(names));
    app.add_flag("--quick", options.is_quick, "Run fewer sizes and samples: seconds instead of minutes");
    app.add_option("--json", options.json,
                   "Write the results to this file, row by row; - means stdout (tables go to stderr)")
        ->type_name("FILE");
    app.add_option(
           "--compare", options.compared,
           "Compare two files that --json has written, instead of measuring: the rows of both, the changes, and "
           "which of them are beyond the spread")
        ->expected(2)
        ->option_text("A.json B.json");
    app.add_option(
           "--report", options.report,
           "Write a page of charts to this HTML file, with Python and its package plotly; without --json the results "
           "are kept beside it")
        ->type_name("FILE");
    CLI::Option *const trace =
        app.add_option("--trace", options.trace,
                       "Write ferry's calls to this file, with their times on threads and streams, for "
                       "https://ui.perfetto.dev. Each call then takes some microseconds longer. All cases make a large "
                       "file: choose with --case and --quick")
            ->type_name("FILE");
    app.add_option("--folder", options.folder, "The folder in which the case file makes its files")
        ->check(CLI::ExistingDirectory)
        ->type_name("FOLDER");
    app.add_option("--device", options.device, "Device number")->check(CLI::NonNegativeNumber);
    app.add_option("--driver", options.driver,
                   "The driver to run on; auto takes the software driver if there is no GPU")
        ->transform(CLI::CheckedTransformer(drivers))
        ->option_text("auto|cuda|software");
    app.add_flag(
        "--wide", options.is_wide,
        "Print tables with all columns: spreads, routes, throughputs, targets. Their lines are longer than 100 "
        "characters");
    app.add_flag("--strict", options.is_strict, "Exit with 1 if a row misses its target")->excludes(trace);
    app.add_flag("--progress", options.shows_progress, "Show the progress on stderr even if that is no terminal");
    app.add_flag("--list", options.only_list, "List the cases and exit");
    app.add_option(importer_option, options.importer_socket)->group(""); // hidden: ipc-open passes it
    app.set_version_flag("--version", "ferry-bench " + ferry_version_text());
    app.footer("Cases:\n" + case_list());
}

// 1 GiB, but at most a quarter of the device's memory, and less in a quick run or if the CPU performs the copies.
std::size_t largest_size(const environment &environment, bool is_quick) {
    std::size_t size = is_quick ? 64 << 20 : 1 << 30;
    if (environment.device_info.is_software) size = is_quick ? 8 << 20 : 16 << 20;
    while (size > environment.device_info.total_memory / 4)
        size /= 4;
    return size;
}

bool has_missed_target(const case_result &result) {
    return std::any_of(result.rows.begin(), result.rows.end(),
                       [](const row &row) { return row.judged() == verdict::missed; });
}

std::string joined(const std::vector<std::string> &labels) {
    std::string line;
    for (const std::string &label : labels)
        line += (line.empty() ? "" : ", ") + label;
    return line;
}

// Runs the cases. Returns whether a row has missed its target.
bool measure(const options &options, results_file &results, std::ostream &out) {
    const environment environment(options.driver, options.device);
    const bool is_software = environment.device_info.is_software;
    if (is_software && options.is_quick) ignore_budgets();
    workspace workspace(environment, largest_size(environment, options.is_quick));
    const std::vector<ceiling> ceilings = measure_ceilings(environment, workspace);
    const run_info info = {environment, measure_opening(environment), ceilings, today_utc(), options.is_quick};
    print_heading(out, info);

    results.describe(info);
    bool is_missed = false;
    progress progress(options.chosen_cases(), options.is_quick, options.shows_progress);
    std::vector<std::string> label_columns;
    const run_listener listener = {.begun = [&](const case_result &begun) { label_columns = begun.label_columns; },
                                   .measured =
                                       [&](const row &row) {
                                           results.add(label_columns, row);
                                           trace_row(joined(row.labels));
                                       }};
    session session = {environment, workspace, ceilings, options.is_quick, progress, listener, options.folder};
    for (const bench_case *each : cases) {
        if (!options.wants(*each)) continue;
        results.begin_case(*each);
        progress.begin_case();
        const double begin_ns = now_ns();
        const case_result result = each->run(session);
        trace_case(each->name, begin_ns);
        results.end_case(result, progress.end_case());
        print_case(out, *each, result, is_software, options.form());
        out << std::flush;
        is_missed = is_missed || (!is_software && has_missed_target(result));
    }
    return is_missed;
}

int run(const options &options) {
    if (options.importer_socket >= 0) {
        run_importer(environment(options.driver, options.device), options.importer_socket, options.is_quick);
        return 0;
    }
    if (options.json == "-" && !options.report.empty()) fail("--report makes the page from a file: --json FILE, not -");
    results_file results(options.json_path()); // fails now, not after minutes of measurements
    std::ostream &out = options.json == "-" ? std::cerr : std::cout;
    if (!options.trace.empty()) begin_trace(options.trace);
    const bool is_missed = measure(options, results, out);
    end_trace();
    results.complete();
    if (!options.report.empty()) {
        write_report_page(options.json_path(), options.report);
        out << '\n' << options.report << ": the page, made from " << options.json_path() << '\n';
    }
    return is_missed && options.is_strict ? 1 : 0;
}

int run(int argument_count, char **arguments) {
#if defined(_WIN32)
    SetConsoleOutputCP(CP_UTF8); // for µ
#endif
    CLI::App app("Measures the raw CUDA driver and ferry side by side.");
    options options;
    declare(app, options);
    CLI11_PARSE(app, argument_count, arguments);
    if (options.only_list) {
        std::cout << case_list();
        return 0;
    }
    try {
        if (!options.compared.empty()) {
            compare_results(std::cout, options.compared[0], options.compared[1]);
            return 0;
        }
        return run(options);
    } catch (const std::exception &failure) {
        std::cerr << "ferry-bench: " << failure.what() << '\n';
        return 1;
    }
}

} // namespace

} // namespace bench

int main(int argument_count, char **arguments) {
    return ferry_tools::exit_code("ferry-bench", bench::run(argument_count, arguments));
}
