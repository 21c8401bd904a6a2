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
    double software_seconds, software_quick_seconds;
    double gpu_seconds; // 0: not measured
    double gpu_quick_seconds;
};
// Measured, one run each: ferry-bench [--quick], `seconds` in the JSON. Software driver: 2 processors. GPU: one H200, 16
// processors, 2026-11-30. Quick runs of peer, relay, broadcast and multilink need several GPUs: the budgets of their
// rows. On other machines, the completed cases of a run correct these values.
constexpr case_time case_times[] = {
    {"linear", 27, 0.1, 0, 2.5},
    {"submit", 15, 0.7, 24, 2.9},
    {"strided", 44, 1.5, 0, 1.9},
    {"volume", 26, 1.2, 0, 1.6},
    {"routes", 0.1, 0.1, 0, 0.1},
    {"regret", 81, 3.3, 0, 4.0},
    {"peer", 12, 0.5, 0, 1.5},
    {"relay", 1.3, 0.2, 0, 0.5},
    {"broadcast", 1.6, 0.3, 0, 1.2},
    {"multilink", 3.9, 0.2, 0, 4},
    {"both-ways", 0.3, 0.1, 0, 0.2},
    {"pinned-alloc", 2.9, 0.3, 0, 1.3},
    {"register", 0.3, 0.1, 0, 0.2},
    {"pinned-pool", 4.3, 0.5, 0, 0.1},
    {"pool-alloc", 6.8, 0.1, 0, 0.6},
    {"address", 1.5, 0.1, 0, 0.2},
    {"ipc-open", 0.8, 0.1, 0, 0.3},
    {"batch", 18, 3.5, 0, 8.9},
    {"nests", 11, 1, 57, 7.5},
    {"nests-regret", 22, 0.7, 19, 2.9},
    {"urgent", 0.6, 0.7, 0, 1.4},
    {"interference", 0.1, 0.1, 0, 2.8},
    {"pageable", 68, 4.2, 0, 5.0},
    {"pageable-busy", 29, 0.1, 0, 0.8},
    {"pageable-busy-gpu", 0.1, 0.1, 0, 0.5},
    {"pageable-cold", 54, 4.2, 0, 2.7},
    {"pageable-loops", 177, 1.1, 0, 0.3},
    {"pageable-pieces", 14, 1.3, 0, 1.2},
    {"pageable-devices", 22, 0.2, 0, 0.4},
    {"file", 16, 3.4, 175, 10.5},
    {"file-busy", 6.7, 1.2, 0, 3.4},
};

// A case that was measured only on the software driver takes between the same and twice the time on a GPU: the rows have
// the same budgets, but sizes are larger and all bytes are verified.
constexpr double most_slower_on_gpu = 2, slower_on_gpu = 1.5;

const case_time &listed_time_of(const std::string &case_name) {
    for (const case_time &each : case_times)
        if (case_name == each.name) return each;
    throw std::logic_error("progress.cpp has no time for the case " + case_name);
}

// The time of one case. `slower`: of a case that was measured only on the software driver.
double seconds_of(const std::string &case_name, run_kind kind, double slower) {
    const case_time &time = listed_time_of(case_name);
    if (kind.is_software) return kind.is_quick ? time.software_quick_seconds : time.software_seconds;
    if (kind.is_quick) return time.gpu_quick_seconds;
    return time.gpu_seconds > 0 ? time.gpu_seconds : time.software_seconds * slower;
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
    return seconds_of(case_name, kind, slower_on_gpu);
}

std::string expected_text(const std::vector<std::string> &cases, run_kind kind) {
    double least = 0, most = 0;
    for (const std::string &name : cases) {
        least += seconds_of(name, kind, 1);
        most += seconds_of(name, kind, most_slower_on_gpu);
    }
    return least == most ? "about " + duration_text(least) : duration_text(least) + " to " + duration_text(most);
}

const char *origin_of_expected_times(run_kind kind) {
    if (kind.is_software) return "measured on a machine with 2 processors";
    return kind.is_quick ? "measured on an H200" : "measured on an H200 or estimated from the budgets of the rows";
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
