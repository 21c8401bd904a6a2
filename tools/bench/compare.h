// Two results files beside each other.
#pragma once

#include <iosfwd>
#include <string>

namespace bench {

// Prints the rows that both files have: the times of ferry and how they changed. A change counts if the middle halves
// of the samples, p25 to p75, do not overlap. Throws with a sentence for people if a file has no results.
void compare_results(std::ostream &out, const std::string &before_path, const std::string &after_path);

} // namespace bench
