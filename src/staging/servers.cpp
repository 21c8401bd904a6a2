#include "staging/servers.h"

#include <algorithm>

#include "staging/spin.h"
#include "system/sleep.h"

namespace ferry {

void lock_patiently(staging_servers::lock &held) noexcept {
    constexpr std::uint64_t patience_ns = 4'000;
    if (!spin_until([&] { return held.try_lock(); }, patience_ns)) held.lock();
}

// Reads `calls_` under the mutex: a call in between changes it, and the wait returns. A server may answer a call that
// was meant for another, which then sleeps again.
void staging_servers::sleep(lock &held) noexcept {
    change(server_state::awake, server_state::asleep);
    while (count(server_state::called) == 0) {
        const std::uint32_t seen = calls_.load(std::memory_order_relaxed);
        unlock(held);
        sleep_while(calls_, seen);
        lock_patiently(held);
    }
    change(server_state::called, server_state::awake);
}

void staging_servers::call(std::uint32_t most) noexcept {
    const std::uint32_t called = std::min(most, count(server_state::asleep));
    in(server_state::asleep) -= called;
    in(server_state::called) += called;
    unnotified_ += called;
}

void staging_servers::unlock(lock &held) noexcept {
    const std::uint32_t called = std::exchange(unnotified_, 0);
    if (called != 0) calls_.fetch_add(1, std::memory_order_relaxed);
    const bool are_all = count(server_state::asleep) == 0;
    held.unlock();
    if (called > 1 && are_all) return wake_all(calls_);
    for (std::uint32_t i = 0; i < called; ++i)
        wake_one(calls_);
}

} // namespace ferry
