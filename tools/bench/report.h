// The tables for human readers.
#pragma once

#include <iosfwd>

#include "case.h"
#include "results.h"

namespace bench {

void print_heading(std::ostream &out, const run_info &run);
void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software);

// Aligns the first `left_count` columns and the last column to the left, and the other columns, which contain numbers,
// to the right.
void print_table(std::ostream &out, const std::vector<std::vector<std::string>> &lines, std::size_t left_count);

} // namespace bench
