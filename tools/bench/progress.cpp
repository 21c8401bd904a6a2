#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <stdexcept>
#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

#include "interrupt.h"
#include "measure.h"
#include "units.h"

namespace bench {

namespace {

struct case_time {
    const char *name;
    double seconds, quick_seconds; // if each row takes its whole budget of time
    double software_quick_seconds; // a quick run of the software driver takes the minimum number of samples
};
// Measured on the software driver with 2 processors, one run each: ferry-bench [--quick] --driver software, `seconds`
// in the JSON. The last column is from 2026-11-30. The quick_seconds of nests-regret are the budgets of its rows. On
// other machines, the completed cases of a run correct these values.
constexpr case_time case_times[] = {
    {"linear", 27, 2.3, 0.1},
    {"submit", 15, 1.1, 0.7},
    {"strided", 44, 2.4, 1.5},
    {"volume", 26, 5.4, 1.2},
    {"routes", 0.1, 0.1, 0.1},
    {"regret", 81, 7.1, 3.3},
    {"peer", 12, 1.5, 0.5},
    {"relay", 1.3, 0.5, 0.2},
    {"broadcast", 1.6, 1.2, 0.3},
    {"multilink", 3.9, 4, 0.2},
    {"both-ways", 0.3, 0.2, 0.1},
    {"pinned-alloc", 2.9, 0.9, 0.3},
    {"register", 0.3, 0.1, 0.1},
    {"pinned-pool", 4.3, 0.4, 0.5},
    {"pool-alloc", 6.8, 0.7, 0.1},
    {"address", 1.5, 0.2, 0.1},
    {"ipc-open", 0.8, 0.3, 0.1},
    {"batch", 18, 4, 3.5},
    {"nests", 11, 2.8, 1},
    {"nests-regret", 22, 2.5, 0.7},
    {"urgent", 0.6, 0.5, 0.7},
    {"interference", 0.1, 0.1, 0.1},
    {"pageable", 68, 13, 4.2},
    {"pageable-busy", 29, 7.6, 0.1},
    {"pageable-busy-gpu", 0.1, 0.1, 0.1},
    {"pageable-cold", 36, 3.6, 2.1},
    {"pageable-loops", 177, 8.1, 1.1},
    {"pageable-pieces", 14, 5.3, 1.3},
    {"pageable-devices", 22, 4.8, 0.2},
    {"file", 16, 5, 3.4},
    {"file-busy", 6.7, 1.1, 1.2},
};

// On a GPU, the rows have the same budgets, but sizes are larger and all bytes are verified. Quick runs of all cases on
// machines with an H200 took 2 to 6 minutes (reports from 2026-11). The quick_seconds of their cases
// add up to 84 s. There are no measurements of single cases or of full runs on a GPU. The range of quick runs is assumed
// for them.
constexpr double least_slower_on_gpu = 120 / 84.0, most_slower_on_gpu = 360 / 84.0;
constexpr double slower_on_gpu = 2.5; // between both

const case_time &listed_time_of(const std::string &case_name) {
    for (const case_time &each : case_times)
        if (case_name == each.name) return each;
    throw std::logic_error("progress.cpp has no time for the case " + case_name);
}

// The time on the software driver, or on a GPU that takes as long for each row.
double unscaled_seconds(const std::string &case_name, run_kind kind) {
    const case_time &time = listed_time_of(case_name);
    if (!kind.is_quick) return time.seconds;
    return kind.is_software ? time.software_quick_seconds : time.quick_seconds;
}

bool is_terminal() {
#if defined(_WIN32)
    return _isatty(_fileno(stderr));
#else
    return isatty(fileno(stderr));
#endif
}

} // namespace

double expected_seconds(const std::string &case_name, run_kind kind) {
    return unscaled_seconds(case_name, kind) * (kind.is_software ? 1 : slower_on_gpu);
}

std::string expected_text(const std::vector<std::string> &cases, run_kind kind) {
    double seconds = 0;
    for (const std::string &name : cases)
        seconds += unscaled_seconds(name, kind);
    if (kind.is_software) return "about " + duration_text(seconds);
    const std::string least = duration_text(least_slower_on_gpu * seconds),
                      most = duration_text(most_slower_on_gpu * seconds);
    return least == most ? "about " + least : least + " to " + most;
}

const char *origin_of_expected_times(run_kind kind) {
    if (kind.is_software) return "measured on a machine with 2 processors";
    return kind.is_quick ? "from quick runs of all cases on H200s"
                         : "a rough estimate from the budgets of the rows and from quick runs on H200s";
}

time_estimate::time_estimate(const std::vector<std::string> &cases, run_kind kind) {
    for (const std::string &name : cases)
        expected_.push_back(expected_seconds(name, kind));
}

void time_estimate::complete_case(double seconds) {
    completed_seconds_ += seconds;
    ++completed_;
}

double time_estimate::seconds_left(double spent) const {
    const auto current = expected_.begin() + static_cast<std::ptrdiff_t>(completed_);
    if (current == expected_.end()) return 0;
    const double expected = std::accumulate(expected_.begin(), current, 0.0);
    const double slower = completed_ ? completed_seconds_ / expected : 1;
    return std::max(*current * slower - spent, 0.0) + slower * std::accumulate(current + 1, expected_.end(), 0.0);
}

progress::progress(std::vector<std::string> cases, run_kind kind, bool is_asked)
    : is_terminal_(is_terminal()), is_asked_(is_asked), cases_(std::move(cases)), estimate_(cases_, kind) {}

void progress::begin_case() {
    case_begin_ns_ = now_ns();
    if (!is_terminal_ && is_asked_) std::cerr << position() << cases_[current_] << std::endl;
}

double progress::end_case() {
    erase();
    const double seconds = (now_ns() - case_begin_ns_) / 1e9;
    estimate_.complete_case(seconds);
    ++current_;
    return seconds;
}

// Such as "case 3 of 26, about 8 min left: ".
std::string progress::position() const {
    const double left = estimate_.seconds_left((now_ns() - case_begin_ns_) / 1e9);
    return "case " + std::to_string(current_ + 1) + " of " + std::to_string(cases_.size()) + ", about " +
           duration_text(left) + " left: ";
}

void progress::show(const char *case_name, const std::string &what, std::size_t size) {
    stop_if_interrupted();
    if (!is_terminal_) return;
    std::cerr << "\r\033[K" << position() << case_name << ' ' << what << ' ' << size_text(size) << std::flush;
}

void progress::erase() {
    if (is_terminal_) std::cerr << "\r\033[K" << std::flush;
}

} // namespace bench
