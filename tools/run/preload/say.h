// Writes lines to standard error.
#pragma once

namespace ferry_run {

// Writes the text to standard error, unless the program has closed standard error and opened another file with its
// number.
void say(const char *text) noexcept;

} // namespace ferry_run
