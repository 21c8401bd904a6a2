// ferry-bench: compares the raw driver calls with ferry's calls, on the same buffers in one run.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <CLI/CLI.hpp>

#include "../output.h"
#include "../version.h"
#include "case.h"
#include "compare.h"
#include "interrupt.h"
#include "progress.h"
#include "report.h"
#include "report_page.h"
#include "second_process.h"
#include "summary.h"
#include "system/windows_api.h"
#include "text_table.h"
#include "trace.h"
#include "units.h"

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
                                       &nests_regret_case,
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
    std::vector<std::string> compared; // two files, one to compare with the run, or empty
    std::string trace;                 // a file, or empty
    int device = 0;
    int importer_socket = -1; // set in a second process
    std::int32_t driver = FERRY_DRIVER_AUTO;
    std::string folder = std::filesystem::temp_directory_path().string();

    bool wants(const std::string &name) const {
        return cases.empty() || std::find(cases.begin(), cases.end(), name) != cases.end();
    }
    comparison_options comparison() const {
        return {[this](const std::string &name) { return wants(name); }, is_wide};
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
        if (wants(each->name)) names.emplace_back(each->name);
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

// The durations of all cases, for the help.
std::string durations() {
    const std::vector<std::string> all = options{}.chosen_cases();
    const auto of = [&](bool is_quick, bool is_software) { return expected_text(all, {is_quick, is_software}); };
    return "All cases take " + of(true, false) + " on a GPU and " + of(true, true) +
           " on the software driver, without --quick " + of(false, false) + " and " + of(false, true) +
           ". Each run prints the time that it is expected to take";
}

void declare(CLI::App &app, options &options) {
    static const std::map<std::string, std::int32_t> drivers = {
        {"auto", FERRY_DRIVER_AUTO}, {"cuda", FERRY_DRIVER_CUDA}, {"software", FERRY_DRIVER_SOFTWARE}};
    std::vector<std::string> names;
    for (const bench_case *each : cases)
        names.push_back(each->name);
    app.add_option("--case", options.cases, "Run only this case; may be repeated")->check(CLI::IsMember(names));
    app.add_flag("--quick", options.is_quick, "Run fewer sizes and samples. " + durations());
    app.add_option("--json", options.json,
                   "Write the results to this file, row by row; - means stdout (tables go to stderr)")
        ->type_name("FILE");
    app.add_option(
           "--compare", options.compared,
           "Show what became slower and faster between two runs, beyond the spread of both. With two files that "
           "--json has written, compare them instead of measuring. With one file, run the cases and compare "
           "the file with this run. --case selects cases; --wide adds the rows that have not changed")
        ->expected(1, 2)
        ->option_text("OLD.json [NEW.json]");
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

// The results of a run.
struct run_results {
    std::vector<measured_case> cases;
    bool is_software = false;
    bool is_last_incomplete = false; // Ctrl-C has ended the last case
    std::vector<std::string> not_measured;

    bool is_interrupted() const { return is_last_incomplete || !not_measured.empty(); }
    bool has(const std::string &name) const {
        return std::any_of(cases.begin(), cases.end(),
                           [&](const measured_case &each) { return each.which->name == name; });
    }
};

// Keeps the rows of the case that runs, and passes them on.
class case_recorder {
public:
    explicit case_recorder(results_file &file) : file_(file) {}
    run_listener listener() {
        return {.begun = [this](const case_result &result) { so_far_ = result; },
                .measured =
                    [this](const row &row) {
                        // Ctrl-C reaches processes that measurements use, too. So the row is perhaps wrong.
                        stop_if_interrupted();
                        file_.add(so_far_.label_columns, row);
                        so_far_.rows.push_back(row);
                        trace_row(names_of(row.labels));
                    }};
    }
    void clear() { so_far_ = {}; }
    // The result of a case that Ctrl-C has ended.
    case_result incomplete_result() const {
        case_result result = so_far_;
        result.note += std::string(result.note.empty() ? "" : "\n") + "INTERRUPTED: the case has more rows.";
        return result;
    }

private:
    results_file &file_;
    case_result so_far_;
};

// Runs a case. Returns nothing if Ctrl-C has ended it. A process that the case uses may fail after Ctrl-C.
std::optional<case_result> run_case(const bench_case &which, session &session) {
    try {
        return which.run(session);
    } catch (const interrupted &) {
        return std::nullopt;
    } catch (const std::exception &) {
        if (!is_interrupted()) throw;
        return std::nullopt;
    }
}

run_results measure(const options &options, results_file &results, std::ostream &out) {
    const environment environment(options.driver, options.device);
    const bool is_software = environment.device_info.is_software;
    if (is_software && options.is_quick) ignore_budgets();
    workspace workspace(environment, largest_size(environment, options.is_quick));
    const std::vector<ceiling> ceilings = measure_ceilings(environment, workspace);
    const run_info info = {environment, measure_opening(environment), ceilings, today_utc(), options.is_quick};
    print_heading(out, info);
    const std::vector<std::string> chosen = options.chosen_cases();
    const run_kind kind = {options.is_quick, is_software};
    print_paragraph(out, counted(chosen.size(), "case") + ", expected to take " + expected_text(chosen, kind) + " (" +
                             origin_of_expected_times(kind) + "). Ctrl-C ends the run and keeps its rows.");
    out << std::flush;

    results.describe(info);
    run_results run;
    run.is_software = is_software;
    progress progress(chosen, kind, options.shows_progress);
    case_recorder recorder(results);
    const run_listener listener = recorder.listener();
    session session = {environment, workspace, ceilings, options.is_quick, progress, listener, options.folder};
    for (const bench_case *each : cases) {
        if (!options.wants(each->name)) continue;
        if (is_interrupted()) {
            run.not_measured.emplace_back(each->name);
            continue;
        }
        recorder.clear();
        results.begin_case(*each);
        progress.begin_case();
        const double begin_ns = now_ns();
        const std::optional<case_result> result = run_case(*each, session);
        trace_case(each->name, begin_ns);
        run.is_last_incomplete = !result;
        run.cases.push_back({each, result ? *result : recorder.incomplete_result()});
        results.end_case(run.cases.back().result, progress.end_case());
        print_case(out, *each, run.cases.back().result, is_software, options.form());
        out << std::flush;
    }
    print_summary(out, run.cases, is_software);
    return run;
}

// Says which rows are kept after Ctrl-C.
void print_interruption(std::ostream &out, const run_results &run, const std::string &json_path) {
    std::size_t rows = 0;
    std::vector<std::string> complete;
    for (const measured_case &each : run.cases) {
        rows += each.result.rows.size();
        complete.emplace_back(each.which->name);
    }
    std::string incomplete = "none";
    if (run.is_last_incomplete) {
        incomplete = complete.back() + " (" + counted(run.cases.back().result.rows.size(), "row") + ')';
        complete.pop_back();
    }
    const auto list = [](const std::vector<std::string> &names) { return names.empty() ? "none" : names_of(names); };
    print_paragraph(out, "INTERRUPTED: " + counted(rows, "row") + " kept. Complete cases: " + list(complete) +
                             "; in part: " + incomplete + "; not measured: " + list(run.not_measured) + ". " +
                             (json_path.empty()  ? "Without --json, they are only in the tables above."
                              : json_path == "-" ? "They are in the JSON on stdout."
                                                 : "They are in " + json_path + '.'));
}

bool has_missed_target(const run_results &run) {
    if (run.is_software) return false;
    for (const measured_case &each : run.cases)
        if (has_missed_target(each.result)) return true;
    return false;
}

constexpr int exit_code_of_interrupt = 130; // as a shell reports SIGINT

int run(const options &options) {
    if (options.importer_socket >= 0) {
        run_importer(environment(options.driver, options.device), options.importer_socket, options.is_quick);
        return 0;
    }
    if (options.json == "-" && !options.report.empty()) fail("--report makes the page from a file: --json FILE, not -");
    std::optional<compared_run> before; // read now, because the run may replace the file
    if (!options.compared.empty()) before = read_run(options.compared[0]);
    const double begin_ns = now_ns();
    results_file results(options.json_path()); // fails now, not after minutes of measurements
    std::ostream &out = options.json == "-" ? std::cerr : std::cout;
    if (!options.trace.empty()) begin_trace(options.trace);
    catch_interrupts();
    const run_results found = measure(options, results, out);
    end_trace();
    if (found.is_interrupted())
        results.end_early();
    else
        results.complete();
    out << "The run took " << duration_text((now_ns() - begin_ns) / 1e9) << ".\n";
    if (found.is_interrupted()) print_interruption(out, found, options.json_path());
    if (before) {
        comparison_options shown = options.comparison();
        shown.wants_case = [&](const std::string &name) { return found.has(name); };
        out << '\n';
        compare_results(out, *before, {"this run", results.written()}, shown);
    }
    if (!options.report.empty()) {
        write_report_page(options.json_path(), options.report);
        out << '\n' << options.report << ": the page, made from " << options.json_path() << '\n';
    }
    if (found.is_interrupted()) return exit_code_of_interrupt;
    return options.is_strict && has_missed_target(found) ? 1 : 0;
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
        if (options.compared.size() == 2) {
            compare_results(std::cout, read_run(options.compared[0]), read_run(options.compared[1]),
                            options.comparison());
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
