// Spin loops. Limits are times, because a pause takes 15 to 40 ns on x86 processors and 1 ns on some Arm processors.
#pragma once

#include <cstdint>

#include "system/threads.h"

namespace ferry {

// Calls is_over() repeatedly until it returns true, or for at most `time_ns`. Returns the last result. Does not read
// the clock if the first result is true.
template <class Condition> bool spin_until(const Condition &is_over, std::uint64_t time_ns) noexcept {
    if (is_over()) return true;
    constexpr int pauses_per_clock = 8; // reading the clock takes as long as two pauses (beside an H200: 31 and 15 ns)
    const std::uint64_t begun = clock_ns();
    do
        for (int i = 0; i < pauses_per_clock; ++i) {
            relax_processor();
            if (is_over()) return true;
        }
    while (clock_ns() - begun < time_ns);
    return false;
}

} // namespace ferry
