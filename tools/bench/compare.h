// Compares two results files.
#pragma once

#include <iosfwd>
#include <string>

namespace bench {

// Prints the rows that both files have: ferry's times and how they changed. A change counts if the middle halves of the
// samples, p25 to p75, do not overlap. Throws with a readable message if a file has no results.
void compare_results(std::ostream &out, const std::string &before_path, const std::string &after_path);

} // namespace bench
