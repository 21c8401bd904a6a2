// The HTML page of a run, created by the Python program ferry-report.
#pragma once

#include <string>

namespace bench {

// Creates the page from a results file. If Python or its package plotly is missing, throws with a readable message. The
// results are kept in any case.
void write_report_page(const std::string &results_path, const std::string &page_path);

} // namespace bench
