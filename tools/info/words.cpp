#include "words.h"

#include <cstdio>

namespace ferry_info {

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char *units[] = {"B", "KiB", "MiB", "GiB"};
    auto value = static_cast<double>(bytes);
    int unit = 0;
    for (; value >= 1024 && unit < 3; value /= 1024)
        ++unit;
    char text[32];
    std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::string list_text(const std::set<int> &all) {
    std::string text;
    for (auto first = all.begin(); first != all.end();) {
        auto last = first, next = first;
        while (++next != all.end() && *next == *last + 1)
            last = next;
        text += (text.empty() ? "" : ",") + std::to_string(*first);
        if (last != first) text += '-' + std::to_string(*last);
        first = next;
    }
    return text.empty() ? "unknown" : text;
}

} // namespace ferry_info
