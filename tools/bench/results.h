// The results as JSON: written row by row as they are measured, and read again.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "case.h"

namespace bench {

using json = nlohmann::ordered_json;

// Facts about the run that are not rows.
struct run_info {
    const bench::environment &environment;
    opening_cost opening;
    const std::vector<ceiling> &ceilings;
    std::string date;
    bool is_quick;
};

std::string today_utc();

// Returns "met", "within the spread", "missed", "no target", or "not judged" for the software driver.
const char *verdict_text(const std::optional<verdict> &verdict, bool is_software);

// Writes one JSON document, one line per row, as soon as the row is measured. In a file, the closing brackets follow
// the last row and are overwritten by the next row. So the file is valid JSON after every row, even if the run is
// killed. A pipe gets the closing brackets at the end of the run.
class results_file {
public:
    // A file, "-" for stdout, or empty: writes no file. Throws if the file cannot be written.
    explicit results_file(std::string path);
    void describe(const run_info &run);
    void begin_case(const bench_case &which);
    void add(const std::vector<std::string> &label_columns, const row &row);
    void end_case(const case_result &result, double seconds);
    void complete();
    // Instead of complete(), after a case has ended: the run has ended early.
    void end_early();
    // The document that has been written, for example to compare it. Also without a file.
    json written() const;

private:
    void write(const std::string &text, const std::string &closing);

    const std::string path_;
    const bool is_file_; // not a pipe
    std::ofstream file_;
    std::string text_; // all that was written, without the closing brackets
    bool is_first_case_ = true, is_first_row_ = true, is_software_ = false, is_complete_ = false;
};

// Reads a results file, even if its end is missing. Throws with a readable message if the file is not a results file.
json read_results(const std::string &path);

} // namespace bench
