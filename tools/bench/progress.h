// The progress of the run, and the estimated remaining time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

// What a run consists of, as far as its duration depends on it.
struct run_kind {
    bool is_quick, is_software;
};

// The time a case is expected to take, in seconds.
double expected_seconds(const std::string &case_name, run_kind kind);

// Such as "about 25 s": the time the cases are expected to take. For a GPU it is a range, because machines differ.
std::string expected_text(const std::vector<std::string> &cases, run_kind kind);
// The origin of these times, in a few words.
const char *origin_of_expected_times(run_kind kind);

// Estimates the remaining time from the expected times, corrected by the times of the completed cases.
class time_estimate {
public:
    time_estimate(const std::vector<std::string> &cases, run_kind kind);
    void complete_case(double seconds);
    // `spent`: time spent in the current case.
    double seconds_left(double spent) const;

private:
    std::vector<double> expected_; // of all cases
    std::size_t completed_ = 0;
    double completed_seconds_ = 0;
};

// On a terminal, one line on stderr that changes with each row and is erased at the end. Otherwise nothing, or on
// request one line per case.
class progress {
public:
    progress(std::vector<std::string> cases, run_kind kind, bool is_asked);
    ~progress() { erase(); }
    progress(const progress &) = delete;

    void begin_case();
    // Returns the seconds that the case took.
    double end_case();
    // Throws `interrupted` after Ctrl-C.
    void show(const char *case_name, const std::string &what, std::size_t size);
    void erase();

private:
    std::string position() const;

    const bool is_terminal_, is_asked_;
    const std::vector<std::string> cases_;
    time_estimate estimate_;
    std::size_t current_ = 0;
    double case_begin_ns_ = 0;
};

} // namespace bench
