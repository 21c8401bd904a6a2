// The tables for human readers.
#pragma once

#include <iosfwd>

#include "case.h"
#include "results.h"

namespace bench {

// A narrow table has the labels, the size, both times, the ratio, and the target with its verdict. A wide table has a
// column for each number of a row that has a name in the results file.
enum class table_form { narrow, wide };

// The sentence that explains the numbers of the software driver.
extern const char *const software_sentence;

void print_heading(std::ostream &out, const run_info &run);
void print_case(std::ostream &out, const bench_case &which, const case_result &result, bool is_software,
                table_form form);

} // namespace bench
