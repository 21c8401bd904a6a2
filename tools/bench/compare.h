// Compares two runs: two results files, or a results file and the run that has just ended.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include <nlohmann/json.hpp>

#include "results.h"

namespace bench {

struct compared_run {
    std::string name; // the file
    json results;
};

struct comparison_options {
    std::function<bool(const std::string &)> wants_case; // by its name
    bool has_all_rows = false;                           // print the rows that have not changed, too
};

// Reads a results file. Throws with a readable message if the file lacks results.
compared_run read_run(const std::string &path);

// Prints what became slower and faster from `before` to `after`: rows with the same case, labels and size. A row has
// changed if the middle halves of the samples, p25 to p75, do not overlap.
void compare_results(std::ostream &out, const compared_run &before, const compared_run &after,
                     const comparison_options &options);

} // namespace bench
