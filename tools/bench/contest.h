// Rows in which several driver calls can perform the copy: ferry is compared with the fastest call.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "case.h"

namespace bench {

// The last label column of such a case, and the last line of its note.
inline constexpr const char *raw_call_column = "raw call";
inline constexpr const char *contest_note =
    "raw: the fastest of the driver's calls that can make the copy, found for each row; ferry: ferry_copy_async; both "
    "until\nthe bytes have arrived; copies of less than 40 µs have no target";

// The copies that all contenders of a row make, and the row's labels.
struct task {
    std::vector<std::string> labels; // without the raw call's name
    std::vector<box> boxes;          // all of them in one run
    double ceiling;                  // GB/s
};

// Finds the raw contender with the best median, verifies its copy and ferry's, and measures both in the same rounds.
row measure_beside_fastest(session &session, task task, std::span<const contender> raw, const contender &ferry);
// Same as above, for one copy by descriptor and all driver calls that perform it.
row measure_box(session &session, std::vector<std::string> labels, const box &box, double ceiling);
// Same as above, on another stream, whose context must be current.
row measure_box(session &session, std::vector<std::string> labels, const box &box, double ceiling, CUstream stream);

// Same as above, with each possible route forced in the same rounds, for about `budget_ns`. The verdict is about how
// much longer ferry's choice takes than the fastest route; the raw call has no target.
inline constexpr const char *routes_note = "by driver, by kernel: ferry_copy_async with that route forced, and the "
                                           "predicted time; best/ferry: the "
                                           "faster of\nboth against the route that ferry chose. Verdict: both ratios "
                                           "meet their targets; if one target is "
                                           "a time, it\nor best/ferry is enough";
// Regret: how much longer than the fastest route, and than the raw call, ferry's choice may take.
inline constexpr allowance more_than_best_route = {0.10, 100}, more_than_raw_call = {0.02, 100};
row measure_routes(session &session, task task, double budget_ns);
// Compares the samples of each forced route with the samples of ferry's choice in the same rounds. Sets the routes'
// times.
route_choice compare_routes(std::vector<route_choice::route> routes, std::span<const samples> forced,
                            const samples &chosen, const allowance &more = more_than_best_route);
// The budget of a row in a table.
double contest_budget_ns(const session &session);

// The maximum size in bytes of a box in a table of many rows: fast to verify, but not a short copy. In a full run it is
// 32 MiB from or to the host, 0.6 ms over an H200's PCIe link, and 64 MiB between devices' memory, 30 us at 2.1 TB/s.
enum class way_of_bytes { host, devices };
std::size_t table_bytes(const session &session, way_of_bytes way);

// Such as "256 B x 64 x 8": the row, then the numbers of rows and slices if greater than 1.
std::string dimensions_text(std::string row, const extent &size);

// Returns all entries of a table, or in a quick run every third, starting with the first.
template <class Entry, std::size_t count>
std::vector<Entry> chosen(const session &session, const Entry (&table)[count]) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < count; i += session.is_quick ? 3 : 1)
        entries.push_back(table[i]);
    return entries;
}

} // namespace bench
