#include "staging/servers.h"

#include <algorithm>

#include "base/threads.h"

namespace ferry {

void lock_patiently(staging_servers::lock &held) noexcept {
    constexpr int patience = 200; // some microseconds
    for (int i = 0; i < patience; ++i) {
        if (held.try_lock()) return;
        relax_processor();
    }
    held.lock();
}

// Reads `calls_` under the mutex: a call in between changes it, and the wait returns. A server may answer a call that
// was meant for another, which then sleeps again.
void staging_servers::sleep(lock &held) noexcept {
    change(server_state::awake, server_state::asleep);
    while (count(server_state::called) == 0) {
        const std::uint32_t seen = calls_.load(std::memory_order_relaxed);
        unlock(held);
        calls_.wait(seen, std::memory_order_relaxed);
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
    if (called > 1 && are_all) return calls_.notify_all();
    for (std::uint32_t i = 0; i < called; ++i)
        calls_.notify_one();
}

} // namespace ferry
