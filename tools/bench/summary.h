// The end of a run on one screen: the rows that ferry won and lost in each case, and the worst lost rows.
#pragma once

#include <iosfwd>
#include <vector>

#include "case.h"

namespace bench {

struct measured_case {
    const bench_case *which;
    case_result result;
};

void print_summary(std::ostream &out, const std::vector<measured_case> &cases, bool is_software);

// Such as "linear, submit".
std::string names_of(const std::vector<std::string> &names);

} // namespace bench
