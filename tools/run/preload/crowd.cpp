#include "crowd.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "record.h"
#include "settings.h"

namespace ferry_run {

namespace {

// Parses "0.20 0.18 0.12 RUNNING/ALL LAST", where RUNNING includes the reading thread.
bool are_more_than_processors() noexcept {
    const int before = errno;
    char text[128];
    ssize_t size = 0;
    if (const int file = open(the_settings().loadavg, O_RDONLY | O_CLOEXEC); file >= 0) {
        size = read(file, text, sizeof text - 1);
        close(file);
    }
    errno = before;
    text[size > 0 ? size : 0] = 0;
    const char *at = text;
    for (int field = 0; at && field < 3; ++field) {
        at = std::strchr(at, ' ');
        if (at) ++at;
    }
    return at && std::strtol(at, nullptr, 10) > std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
}

} // namespace

bool is_crowded() noexcept {
    constexpr std::uint64_t lasting_ns = 10'000'000;
    static std::atomic<std::uint64_t> looked_ns = 0;
    static std::atomic<bool> found = false;
    const std::uint64_t now = clock_ns();
    if (now > looked_ns.load(std::memory_order_relaxed) + lasting_ns) {
        looked_ns.store(now, std::memory_order_relaxed);
        found.store(are_more_than_processors(), std::memory_order_relaxed);
    }
    return found.load(std::memory_order_relaxed);
}

} // namespace ferry_run
