#include <chrono>

#include "system/threads.h"

namespace ferry {

std::uint64_t clock_ns() noexcept {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

} // namespace ferry
