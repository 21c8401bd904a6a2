// A case, its input and its result. A new case is one file case_<name>.cpp that defines a bench_case, which is declared
// at the end of this header and listed in main.cpp.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "measure.h"
#include "workspace.h"

namespace bench {

class progress;

struct session {
    const bench::environment &environment;
    bench::workspace &workspace;
    const std::vector<ceiling> &ceilings;
    bool is_quick;
    bench::progress &progress;
};

// The route that ferry chose, compared with every route that can serve the copy, each forced.
struct route_choice {
    struct route {
        std::int32_t which; // FERRY_ROUTE_*
        distribution time_ns;
        double predicted_ns; // by the plan; 0: unknown
    };
    std::vector<route> routes;
    std::optional<std::int32_t> chosen; // empty for batches, whose pieces may take several routes
    distribution ratio;                 // the fastest route's time / ferry's, as in a comparison
    double target;                      // the minimum acceptable ratio

    verdict judged() const { return judge(ratio, target); }
};

// How close ferry comes to the link's limit, measured as the driver's copy of as many bytes of pinned memory in the
// same rounds.
struct link_share {
    distribution share; // that copy's time / ferry's
    std::optional<double> target;

    verdict judged() const { return judge(share, target); }
};

// One comparison of the raw driver and ferry.
struct row {
    std::vector<std::string> labels; // one for each of the case's label columns
    std::size_t bytes;
    comparison times;
    std::optional<double> target = {};             // the minimum acceptable ratio
    std::optional<double> max_ns = {};             // instead of `target`: the maximum time for ferry
    std::optional<double> ceiling = {};            // bytes per nanosecond (GB/s); with it, bandwidths are shown
    std::optional<distribution> reference_ns = {}; // another raw call, for information
    std::optional<route_choice> choice = {};       // judged too
    std::optional<link_share> of_link = {};        // judged too, if it has a target

    // A row without a target is only shown.
    bool has_target() const { return is_judged_beside_calls() || is_judged_beside_link(); }
    // ferry has to keep up with both the link and the calls.
    verdict judged() const {
        if (!is_judged_beside_link()) return judged_beside_calls();
        return is_judged_beside_calls() ? worse_of(judged_beside_calls(), of_link->judged()) : of_link->judged();
    }

private:
    bool is_judged_beside_calls() const { return target || max_ns || choice; }
    bool is_judged_beside_link() const { return of_link && of_link->target; }
    // ferry has to keep up with both the raw call and the other routes. With `max_ns`, keeping to that time or keeping
    // up with the other routes is enough, because on this machine perhaps no route reaches that time.
    verdict judged_beside_calls() const {
        if (max_ns) {
            const verdict of_time = judge_at_most(times.ferry_ns, *max_ns);
            return choice ? better_of(of_time, choice->judged()) : of_time;
        }
        if (!choice) return judge(times.ratio, target);
        return target ? worse_of(judge(times.ratio, target), choice->judged()) : choice->judged();
    }
};

// Numbers without a comparison, in a table of their own.
struct number_table {
    std::vector<std::string> label_columns = {};
    struct line {
        std::vector<std::string> labels;
        std::vector<double> numbers;
    };
    std::vector<std::string> number_columns = {};
    std::vector<line> lines = {};
};

struct case_result {
    std::string note;                       // tells the reader what raw and ferry are here
    std::vector<std::string> label_columns; // of the rows
    std::string reference_column = {};      // what row::reference_ns is, if the rows have one
    bool is_in_us = false;                  // times of rows without a ceiling; otherwise in nanoseconds
    std::vector<row> rows = {};
    number_table numbers = {};
};

// One text out of several.
inline std::string joined(std::initializer_list<const char *> texts) {
    std::string all;
    for (const char *text : texts)
        all += text;
    return all;
}

// The result of a case that this driver or machine does not support.
inline case_result skipped(const std::string &why) { return {.note = "skipped: " + why, .label_columns = {}}; }

struct bench_case {
    const char *name;
    const char *summary; // one line
    case_result (*run)(session &);
};

extern const bench_case linear_case;
extern const bench_case submit_case;
extern const bench_case strided_case;
extern const bench_case volume_case;
extern const bench_case regret_case;
extern const bench_case peer_case;
extern const bench_case relay_case;
extern const bench_case broadcast_case;
extern const bench_case multilink_case;
extern const bench_case both_ways_case;
extern const bench_case pinned_alloc_case;
extern const bench_case register_case;
extern const bench_case pinned_pool_case;
extern const bench_case pool_alloc_case;
extern const bench_case address_case;
extern const bench_case ipc_open_case;
extern const bench_case batch_case;
extern const bench_case urgent_case;
extern const bench_case interference_case;
extern const bench_case pageable_case;
extern const bench_case pageable_busy_case;
extern const bench_case pageable_busy_gpu_case;
extern const bench_case pageable_cold_case;
extern const bench_case pageable_loops_case;
extern const bench_case pageable_pieces_case;
extern const bench_case pageable_devices_case;

// Runs the second process of ipc-open. It talks to the first process through `socket`.
void run_importer(const environment &environment, int socket, bool is_quick);

} // namespace bench
