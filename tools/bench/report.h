// The output: the progress line, the tables and the JSON.
#pragma once

#include <iosfwd>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "case.h"

namespace bench {

using json = nlohmann::ordered_json;

// One line on stderr with the run's progress, only on a terminal and erased at the end.
class progress {
public:
    progress();
    ~progress() { erase(); }
    progress(const progress &) = delete;
    void show(const char *case_name, const std::string &what, std::size_t size);
    void erase();

private:
    const bool is_terminal_;
};

// The facts about the run that are not rows.
struct run_info {
    const bench::environment &environment;
    opening_cost opening;
    const std::vector<ceiling> &ceilings;
    std::string date;
    bool is_quick;
};

std::string size_text(std::size_t bytes);
std::string today_utc();

void print_heading(std::ostream &out, const run_info &run);
void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software);

json to_json(const run_info &run);
json to_json(const bench_case &which, const case_result &result);

} // namespace bench
