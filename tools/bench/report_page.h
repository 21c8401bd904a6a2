// The HTML page of a run, which the Python program ferry-report makes.
#pragma once

#include <string>

namespace bench {

// Makes the page from a results file. Throws with a sentence for people, who still have the results, if Python or its
// package plotly is missing.
void write_report_page(const std::string &results_path, const std::string &page_path);

} // namespace bench
