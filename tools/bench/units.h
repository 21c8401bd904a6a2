// Sizes, times and durations for human readers: each in the unit that fits.
#pragma once

#include <cstddef>
#include <string>

#include "measure.h"

namespace bench {

// Formats like printf.
std::string text(const char *format, ...);

// Such as "64 KiB" or "1000 B": the largest unit of which the size is a whole number.
std::string size_text(std::size_t bytes);

// Up to three significant digits: "0.012", "1.23", "12.3", "123".
std::string three_digits(double value);

// Such as "981 ns", "27.5 µs" or "1.23 s".
std::string time_text(double time_ns);

// Such as "27.5 [27.1..28.0] µs": the median and the middle half of the samples, in the unit that fits the median.
std::string spread_text(const distribution &time_ns);

// Such as "40 s", "8 min" or "1 h 5 min": a remaining time.
std::string duration_text(double seconds);

// Such as "1 row" or "2 rows".
std::string counted(std::size_t count, const char *noun);

// The number of columns that UTF-8 text occupies.
std::size_t width_of(const std::string &text);

} // namespace bench
