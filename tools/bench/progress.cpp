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

#include "measure.h"
#include "units.h"

namespace bench {

namespace {

struct case_time {
    const char *name;
    double seconds, quick_seconds;
};
// Measured on the software driver with 2 processors, one run each: ferry-bench [--quick] --driver software, `seconds`
// in the JSON. On other machines, the completed cases of a run correct these values.
constexpr case_time case_times[] = {
    {"linear", 27, 2.3},
    {"submit", 15, 1.1},
    {"strided", 44, 2.4},
    {"volume", 26, 5.4},
    {"routes", 0.1, 0.1},
    {"regret", 81, 7.1},
    {"peer", 12, 1.5},
    {"relay", 1.3, 0.5},
    {"broadcast", 1.6, 1.2},
    {"multilink", 3.9, 4},
    {"both-ways", 0.3, 0.2},
    {"pinned-alloc", 2.9, 0.9},
    {"register", 0.3, 0.1},
    {"pinned-pool", 4.3, 0.4},
    {"pool-alloc", 6.8, 0.7},
    {"address", 1.5, 0.2},
    {"ipc-open", 0.8, 0.3},
    {"batch", 18, 4},
    {"nests", 11, 2.8},
    {"urgent", 0.6, 0.5},
    {"interference", 0.1, 0.1},
    {"pageable", 68, 13},
    {"pageable-busy", 29, 7.6},
    {"pageable-busy-gpu", 0.1, 0.1},
    {"pageable-cold", 36, 3.6},
    {"pageable-loops", 177, 8.1},
    {"pageable-pieces", 14, 5.3},
    {"pageable-devices", 22, 4.8},
    {"file", 16, 5},
    {"file-busy", 6.7, 1.1},
};

bool is_terminal() {
#if defined(_WIN32)
    return _isatty(_fileno(stderr));
#else
    return isatty(fileno(stderr));
#endif
}

} // namespace

double expected_seconds(const std::string &case_name, bool is_quick) {
    for (const case_time &each : case_times)
        if (case_name == each.name) return is_quick ? each.quick_seconds : each.seconds;
    throw std::logic_error("progress.cpp has no time for the case " + case_name);
}

time_estimate::time_estimate(const std::vector<std::string> &cases, bool is_quick) {
    for (const std::string &name : cases)
        expected_.push_back(expected_seconds(name, is_quick));
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

progress::progress(std::vector<std::string> cases, bool is_quick, bool is_asked)
    : is_terminal_(is_terminal()), is_asked_(is_asked), cases_(std::move(cases)), estimate_(cases_, is_quick) {}

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
    if (!is_terminal_) return;
    std::cerr << "\r\033[K" << position() << case_name << ' ' << what << ' ' << size_text(size) << std::flush;
}

void progress::erase() {
    if (is_terminal_) std::cerr << "\r\033[K" << std::flush;
}

} // namespace bench
