// Lines on standard error.
#pragma once

namespace ferry_run {

// Writes the text to standard error, unless the program has closed it meanwhile and opened something else in its place.
void say(const char *text) noexcept;

} // namespace ferry_run
