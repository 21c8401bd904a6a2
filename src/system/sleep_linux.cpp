#if defined(__linux__)
#include "system/sleep.h"

#include <cerrno>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {

namespace {

void call_futex(const std::atomic<std::uint32_t> &word, int operation, std::uint32_t value) noexcept {
    const int kept = errno;
    syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
    errno = kept;
}

} // namespace

void sleep_while(const std::atomic<std::uint32_t> &word, std::uint32_t seen) noexcept {
    call_futex(word, FUTEX_WAIT_PRIVATE, seen);
}
void wake_one(const std::atomic<std::uint32_t> &word) noexcept { call_futex(word, FUTEX_WAKE_PRIVATE, 1); }

} // namespace ferry
#endif
