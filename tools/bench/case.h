// What a case is, what it is given and what it hands back. A new case is one file case_<name>.cpp that defines a
// bench_case, declared at the end of this header and listed in main.cpp.
#pragma once

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

// The way that ferry chose, beside all those that can serve, each forced.
struct route_choice {
    struct route {
        std::int32_t which; // FERRY_ROUTE_*
        distribution time_ns;
        double predicted_ns; // by the plan; 0: not known
    };
    std::vector<route> routes;
    std::optional<std::int32_t> chosen; // not told of batches, whose pieces may go several ways
    distribution ratio;                 // the fastest route's time / ferry's, as of a comparison
    double target;                      // the least ratio that is acceptable

    verdict judged() const { return judge(ratio, target); }
};

// How near ferry comes to what the link alone limits: the driver's copy of as many bytes of pinned memory, in the same
// rounds.
struct link_share {
    distribution share; // that copy's time / ferry's
    std::optional<double> target;

    verdict judged() const { return judge(share, target); }
};

// One comparison: raw beside ferry.
struct row {
    std::vector<std::string> labels; // one for each of the case's label columns
    std::size_t bytes;
    comparison times;
    std::optional<double> target = {};             // the least ratio that is acceptable
    std::optional<double> most_ns = {};            // in its place: the most time that ferry may take
    std::optional<double> ceiling = {};            // bytes a nanosecond (GB/s); with it, bandwidths are shown
    std::optional<distribution> reference_ns = {}; // another raw call, for orientation
    std::optional<route_choice> choice = {};       // judged too
    std::optional<link_share> of_link = {};        // judged too, where it has a target

    // A row without a target is only shown.
    bool has_target() const { return is_judged_beside_calls() || is_judged_beside_link(); }
    // The link and the calls are both to be kept up with.
    verdict judged() const {
        if (!is_judged_beside_link()) return judged_beside_calls();
        return is_judged_beside_calls() ? worse_of(judged_beside_calls(), of_link->judged()) : of_link->judged();
    }

private:
    bool is_judged_beside_calls() const { return target || most_ns || choice; }
    bool is_judged_beside_link() const { return of_link && of_link->target; }
    // Both the raw call and the other routes are to be kept up with. Of a time and the other routes one is enough: no
    // route may reach that time on this machine.
    verdict judged_beside_calls() const {
        if (most_ns) {
            const verdict of_time = judge_at_most(times.ferry_ns, *most_ns);
            return choice ? better_of(of_time, choice->judged()) : of_time;
        }
        if (!choice) return judge(times.ratio, target);
        return target ? worse_of(judge(times.ratio, target), choice->judged()) : choice->judged();
    }
};

// Numbers that are no comparison, in a table of their own.
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
    std::string note;                       // what raw and ferry are here, for the reader of the table
    std::vector<std::string> label_columns; // of the rows
    std::string reference_column = {};      // what row::reference_ns is, if the rows have one
    bool is_in_us = false;                  // the times of rows without a ceiling: else in nanoseconds
    std::vector<row> rows = {};
    number_table numbers = {};
};

// Of a case that this driver or this machine has nothing for.
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

// What the second process of ipc-open does, which speaks with the first one through `socket`.
void run_importer(const environment &environment, int socket, bool is_quick);

} // namespace bench
