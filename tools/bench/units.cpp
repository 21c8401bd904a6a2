#include "units.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace bench {

namespace {

struct time_unit {
    double ns;
    const char *name;
};

// The next unit begins where three digits would round up to 1000 of the current unit.
time_unit unit_of(double time_ns) {
    for (const time_unit &unit : {time_unit{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}})
        if (time_ns >= 0.9995 * unit.ns) return unit;
    return {1, "ns"};
}

} // namespace

std::string text(const char *format, ...) {
    std::array<char, 512> line = {};
    va_list values;
    va_start(values, format);
    std::vsnprintf(line.data(), line.size(), format, values);
    va_end(values);
    return line.data();
}

std::string size_text(std::size_t bytes) {
    static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB"};
    int unit = 0;
    for (; bytes >= 1024 && bytes % 1024 == 0 && unit < 3; bytes /= 1024)
        ++unit;
    return text("%zu %s", bytes, units[unit]);
}

std::string three_digits(double value) {
    if (value < 0.0995 && value > 0) return text("%.2g", value);
    return text("%.*f", value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2, value);
}

std::string time_text(double time_ns) {
    const time_unit unit = unit_of(time_ns);
    return three_digits(time_ns / unit.ns) + ' ' + unit.name;
}

std::string spread_text(const distribution &time_ns) {
    const time_unit unit = unit_of(time_ns.median);
    const auto number = [&](double value_ns) { return three_digits(value_ns / unit.ns); };
    return number(time_ns.median) + " [" + number(time_ns.p25) + ".." + number(time_ns.p75) + "] " + unit.name;
}

std::string duration_text(double seconds) {
    if (seconds < 59.5) return text("%.0f s", std::max(seconds, 1.0));
    const auto minutes = static_cast<long>(std::lround(seconds / 60));
    return minutes < 60 ? text("%ld min", minutes) : text("%ld h %ld min", minutes / 60, minutes % 60);
}

std::string counted(std::size_t count, const char *noun) {
    return text("%zu %s%s", count, noun, count == 1 ? "" : "s");
}

std::size_t width_of(const std::string &text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

} // namespace bench
