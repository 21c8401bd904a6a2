// Sizes, times and durations as people read them: each in the unit that fits.
#pragma once

#include <cstddef>
#include <string>

#include "measure.h"

namespace bench {

// As printf prints.
std::string text(const char *format, ...);

// "64 KiB", "1000 B": the largest unit of which the size is a whole number.
std::string size_text(std::size_t bytes);

// Up to three significant digits: "0.012", "1.23", "12.3", "123".
std::string three_digits(double value);

// "981 ns", "27.5 µs", "1.23 s"
std::string time_text(double time_ns);

// "27.5 [27.1..28.0] µs": the median and the middle half of the samples, in the unit that fits the median.
std::string spread_text(const distribution &time_ns);

// "40 s", "8 min", "1 h 5 min": for people who wait.
std::string duration_text(double seconds);

// The number of columns that UTF-8 text takes.
std::size_t width_of(const std::string &text);

} // namespace bench
