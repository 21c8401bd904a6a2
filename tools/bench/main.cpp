// ferry-bench: compares the raw driver calls with ferry's calls, on the same buffers in one run.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "case.h"
#include "report.h"
#include "second_process.h"

namespace bench {

namespace {

constexpr const bench_case *cases[] = {&linear_case,          &submit_case,
                                       &strided_case,         &volume_case,
                                       &regret_case,          &peer_case,
                                       &relay_case,           &broadcast_case,
                                       &multilink_case,       &both_ways_case,
                                       &pinned_alloc_case,    &register_case,
                                       &pinned_pool_case,     &pool_alloc_case,
                                       &address_case,         &ipc_open_case,
                                       &batch_case,           &urgent_case,
                                       &interference_case,    &pageable_case,
                                       &pageable_busy_case,   &pageable_busy_gpu_case,
                                       &pageable_cold_case,   &pageable_loops_case,
                                       &pageable_pieces_case, &pageable_devices_case};

struct options {
    std::vector<std::string> cases; // empty: all
    bool is_quick = false, is_strict = false, only_list = false;
    std::string json; // a file, "-" for stdout, or empty
    int device = 0;
    int importer_socket = -1; // set in a second process
    std::int32_t driver = FERRY_DRIVER_AUTO;

    bool wants(const bench_case &which) const {
        return cases.empty() || std::find(cases.begin(), cases.end(), which.name) != cases.end();
    }
};

std::string case_list() {
    std::string list;
    for (const bench_case *each : cases) {
        std::string name = each->name;
        name.resize(14, ' ');
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
                   "Write the results to this file after each case; - means stdout, at the end (tables go to stderr)")
        ->type_name("FILE");
    app.add_option("--device", options.device, "Device number")->check(CLI::NonNegativeNumber);
    app.add_option("--driver", options.driver,
                   "The driver to run on; auto takes the software driver if there is no GPU")
        ->transform(CLI::CheckedTransformer(drivers))
        ->option_text("auto|cuda|software");
    app.add_flag("--strict", options.is_strict, "Exit with 1 if a row misses its target");
    app.add_flag("--list", options.only_list, "List the cases and exit");
    app.add_option(importer_option, options.importer_socket)->group(""); // hidden: ipc-open passes it
    app.footer("Cases:\n" + case_list());
}

// 1 GiB, but at most a quarter of the device's memory, and less in a quick run or where the CPU makes the copies.
std::size_t largest_size(const environment &environment, bool is_quick) {
    std::size_t size = environment.device_info.is_software ? 16 << 20 : is_quick ? 64 << 20 : 1 << 30;
    while (size > environment.device_info.total_memory / 4)
        size /= 4;
    return size;
}

bool has_lost_target(const case_result &result) {
    return std::any_of(result.rows.begin(), result.rows.end(),
                       [](const row &row) { return row.has_target() && row.judged() == verdict::lost; });
}

// The results of the completed cases. The file is valid JSON at every moment, even if the run is killed, because it is
// written under another name and then renamed. A pipe or a device is written once, at the end.
class results_file {
public:
    explicit results_file(std::string path)
        : path_(std::move(path)),
          is_replaced_(!std::filesystem::exists(path_) || std::filesystem::is_regular_file(path_)),
          results_({{"complete", false}, {"cases", json::array()}}) {
        write();
    }
    void describe(json run) {
        run.update(results_);
        results_ = std::move(run);
        write();
    }
    void add(json done) {
        results_["cases"].push_back(std::move(done));
        write();
    }
    void complete() {
        results_["complete"] = true;
        write();
        if (path_ == "-" && !(std::cout << results_.dump(2) << std::endl)) fail("cannot write to stdout");
    }

private:
    void write() const {
        if (path_.empty() || path_ == "-" || (!is_replaced_ && !results_["complete"])) return;
        const std::string draft = is_replaced_ ? path_ + ".part" : path_;
        std::ofstream file(draft);
        file << results_.dump(2) << std::endl;
        file.close();
        std::error_code failed;
        if (file && is_replaced_) std::filesystem::rename(draft, path_, failed); // also replaces a file on Windows
        if (!file || failed) fail("cannot write " + path_);
    }

    const std::string path_;
    const bool is_replaced_;
    json results_;
};

int run(const options &options) {
    if (options.importer_socket >= 0) {
        run_importer(environment(options.driver, options.device), options.importer_socket, options.is_quick);
        return 0;
    }
    results_file results(options.json); // fails before the measurements, not after minutes of them
    std::ostream &out = options.json == "-" ? std::cerr : std::cout;

    const environment environment(options.driver, options.device);
    workspace workspace(environment, largest_size(environment, options.is_quick));
    const std::vector<ceiling> ceilings = measure_ceilings(environment, workspace);
    const run_info info = {environment, measure_opening(environment), ceilings, today_utc(), options.is_quick};
    print_heading(out, info);

    results.describe(to_json(info));
    bool is_lost = false;
    progress progress;
    session session = {environment, workspace, ceilings, options.is_quick, progress};
    for (const bench_case *each : cases) {
        if (!options.wants(*each)) continue;
        const case_result result = each->run(session);
        progress.erase();
        print_case(out, *each, result, environment.device_info.is_software);
        out << std::flush;
        results.add(to_json(*each, result));
        is_lost = is_lost || has_lost_target(result);
    }
    results.complete();
    return is_lost && options.is_strict ? 1 : 0;
}

} // namespace

} // namespace bench

int main(int argument_count, char **arguments) {
    CLI::App app("Measures the raw CUDA driver and ferry side by side.");
    bench::options options;
    bench::declare(app, options);
    CLI11_PARSE(app, argument_count, arguments);
    if (options.only_list) {
        std::cout << bench::case_list();
        return 0;
    }
    try {
        return bench::run(options);
    } catch (const std::exception &failure) {
        std::cerr << "ferry-bench: " << failure.what() << '\n';
        return 1;
    }
}
