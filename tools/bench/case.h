// A case, its input and its result. A new case is one file case_<name>.cpp that defines a bench_case. The bench_case is
// declared at the end of this header and listed in main.cpp; progress.cpp has its expected time.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "measure.h"
#include "workspace.h"

namespace bench {

class progress;

// Whether a label is a result of the run rather than a parameter of the row.
inline bool is_finding(const std::string &label) { return label == "raw call" || label == "route"; }

// The result of a row. won: the target is met; lost: the target is missed.
enum class row_outcome { won, lost, undecided, at_ceiling, no_target };

// Compares the route that ferry chose with every route that can serve the copy. Each route is forced.
struct route_choice {
    struct route {
        std::int32_t which; // FERRY_ROUTE_*
        distribution time_ns;
        double predicted_ns; // by the plan; 0: unknown
    };
    std::vector<route> routes;
    std::optional<std::int32_t> chosen; // empty for batches, whose pieces may use several routes
    distribution ratio;                 // the fastest route's time / ferry's, as in a comparison
    double target;                      // the minimum acceptable ratio

    verdict judged() const { return judge(ratio, target); }
};

// Compares ferry with the limit of the link: with the driver's copy of the same number of bytes of pinned memory in the
// same rounds, or with the row's ceiling.
struct link_share {
    distribution share; // the limit's time / ferry's
    std::optional<double> target;

    std::optional<verdict> judged() const { return target ? std::optional(judge(share, *target)) : std::nullopt; }
};

inline link_share share_of_ceiling(double ceiling, std::size_t bytes, const distribution &ferry_ns,
                                   std::optional<double> target) {
    const double limit_ns = static_cast<double>(bytes) / ceiling;
    return {{limit_ns / ferry_ns.p90, limit_ns / ferry_ns.p75, limit_ns / ferry_ns.median, limit_ns / ferry_ns.p25,
             limit_ns / ferry_ns.p10, limit_ns / ferry_ns.least, limit_ns / ferry_ns.p99, ferry_ns.count},
            target};
}

// One comparison of the raw driver and ferry.
struct row {
    std::vector<std::string> labels; // one for each of the case's label columns
    std::size_t bytes;
    comparison times;
    std::optional<double> target = {};             // the minimum acceptable ratio
    std::optional<double> max_ns = {};             // instead of `target`: the maximum time for ferry
    std::optional<double> ceiling = {};            // bytes per nanosecond (GB/s); with it, bandwidths are shown
    std::optional<distribution> reference_ns = {}; // another raw call, for information
    std::optional<route_choice> choice = {};       // judged as well
    std::optional<link_share> of_link = {};        // judged as well if it has a target

    // Empty for a row without a target. ferry must meet the targets for both the link and the calls.
    std::optional<verdict> judged() const {
        const std::optional<verdict> beside_calls = judged_beside_calls();
        const std::optional<verdict> beside_link = of_link ? of_link->judged() : std::nullopt;
        if (beside_calls && beside_link) return worse_of(*beside_calls, *beside_link);
        return beside_calls ? beside_calls : beside_link;
    }

    // The longest median of ferry that meets all targets of the row.
    std::optional<double> target_ns() const {
        const std::optional<double> of_calls = target_ns_beside_calls();
        if (!of_link || !of_link->target) return of_calls;
        const double of_limit = times.ferry_ns.median * of_link->share.median / *of_link->target;
        return of_calls ? std::min(*of_calls, of_limit) : of_limit;
    }

    // Rows at the ceiling do not meet their target, which requires a higher throughput than the measured ceiling. The
    // ceiling does not count if the driver's call of this row was faster.
    row_outcome outcome() const {
        const std::optional<verdict> found = judged();
        if (!found) return row_outcome::no_target;
        if (*found == verdict::met) return row_outcome::won;
        if (ceiling && std::min(static_cast<double>(bytes) / *ceiling, times.raw_ns.median) > *target_ns())
            return row_outcome::at_ceiling;
        return *found == verdict::missed ? row_outcome::lost : row_outcome::undecided;
    }

private:
    std::optional<double> target_ns_beside_calls() const {
        std::optional<double> of_raw = max_ns, of_choice;
        if (target && !max_ns) of_raw = times.ferry_ns.median * times.ratio.median / *target;
        if (choice) of_choice = times.ferry_ns.median * choice->ratio.median / choice->target;
        if (!of_raw || !of_choice) return of_raw ? of_raw : of_choice;
        return max_ns ? std::max(*of_raw, *of_choice) : std::min(*of_raw, *of_choice);
    }

    // ferry must be as fast as both the raw call and the other routes. With `max_ns`, either staying within that time
    // or being as fast as the other routes is sufficient, because on this machine perhaps no route is that fast.
    std::optional<verdict> judged_beside_calls() const {
        if (max_ns) {
            const verdict of_time = judge_at_most(times.ferry_ns, *max_ns);
            return choice ? better_of(of_time, choice->judged()) : of_time;
        }
        if (target && choice) return worse_of(judge(times.ratio, *target), choice->judged());
        if (choice) return choice->judged();
        return target ? std::optional(judge(times.ratio, *target)) : std::nullopt;
    }
};

// The rows of a case, in the order of their measurement. A row that was added no longer changes.
class row_list {
public:
    row_list() = default;
    explicit row_list(std::function<void(const row &)> added) : added_(std::move(added)) {}
    void push_back(row row) {
        rows_.push_back(std::move(row));
        if (added_) added_(rows_.back());
    }
    auto begin() const { return rows_.begin(); }
    auto end() const { return rows_.end(); }
    bool empty() const { return rows_.empty(); }
    std::size_t size() const { return rows_.size(); }

private:
    std::vector<row> rows_;
    std::function<void(const row &)> added_;
};

// Numbers without a comparison, in a separate table.
struct number_table {
    std::vector<std::string> label_columns = {};
    struct line {
        std::vector<std::string> labels;
        std::vector<double> numbers;
    };
    std::vector<std::string> number_columns = {};
    std::vector<line> lines = {};
};

// The route that ferry plans for rows of each width and number.
struct route_map {
    std::vector<std::string> labels; // copy, memory, and the end with gaps
    std::vector<std::size_t> widths; // bytes
    std::vector<std::size_t> rows;
    std::vector<std::vector<const char *>> routes; // by rows, then by width; null: too large for this run
};

struct case_result {
    std::string note;                       // explains what raw and ferry mean here
    std::vector<std::string> label_columns; // of the rows
    std::string reference_column = {};      // the meaning of row::reference_ns, if the rows have one
    row_list rows = {};
    number_table numbers = {};
    std::vector<route_map> route_maps = {};
};

// Receives the results of a case while it runs.
struct run_listener {
    std::function<void(const case_result &)> begun; // without rows
    std::function<void(const row &)> measured;
};

struct session {
    const bench::environment &environment;
    bench::workspace &workspace;
    const std::vector<ceiling> &ceilings;
    bool is_quick;
    bench::progress &progress;
    const run_listener &listener;
    std::string folder = {}; // for files

    // Returns the result with its rows connected to `listener`.
    case_result begin(case_result result) const {
        listener.begun(result);
        result.rows = row_list([measured = &listener.measured](const row &row) { (*measured)(row); });
        return result;
    }
};

// Concatenates several texts.
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
extern const bench_case routes_case;
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
extern const bench_case nests_case;
extern const bench_case nests_regret_case;
extern const bench_case urgent_case;
extern const bench_case interference_case;
extern const bench_case pageable_case;
extern const bench_case pageable_busy_case;
extern const bench_case pageable_busy_gpu_case;
extern const bench_case pageable_cold_case;
extern const bench_case pageable_loops_case;
extern const bench_case pageable_pieces_case;
extern const bench_case pageable_devices_case;
extern const bench_case file_case;
extern const bench_case file_busy_case;

// Runs the second process of ipc-open, which communicates with the first process through `socket`.
void run_importer(const environment &environment, int socket, bool is_quick);

} // namespace bench
