#include "staging/servers.h"

#include <algorithm>
#include <iterator>

#include "staging/spin.h"
#include "system/sleep.h"

namespace ferry {

void lock_patiently(staging_servers::lock &held) noexcept {
    constexpr std::uint64_t patience_ns = 4'000;
    if (!spin_until([&] { return held.try_lock(); }, patience_ns)) held.lock();
}

// Reads `calls` with the mutex locked. A call before the wait changes `calls`, so the wait returns. A server may
// respond to a call that was meant for another server, which then continues to sleep.
void staging_servers::sleep(lock &held, int home) noexcept {
    home_servers &mine = of(home);
    change(server_state::awake, server_state::asleep, home);
    ++mine.asleep;
    while (mine.called == 0) {
        const std::uint32_t seen = mine.calls.load(std::memory_order_relaxed);
        unlock(held);
        sleep_while(mine.calls, seen);
        lock_patiently(held);
    }
    --mine.called;
    change(server_state::called, server_state::awake, home);
}

std::uint32_t staging_servers::call_from(home_servers &one, std::uint32_t most) noexcept {
    const std::uint32_t called = std::min(most, one.asleep);
    one.asleep -= called;
    one.called += called;
    one.unnotified += called;
    return called;
}

void staging_servers::call(std::uint32_t most, int home) noexcept {
    first_to_wake_ = room(home);
    std::uint32_t called = call_from(of(home), most);
    for (home_servers &one : by_home_)
        called += call_from(one, most - called);
    in(server_state::asleep) -= called;
    in(server_state::called) += called;
    unnotified_ += called;
}

void staging_servers::unlock(lock &held, std::uint32_t most) noexcept {
    if (unnotified_ == 0) return held.unlock();
    std::uint32_t left = std::min(most, unnotified_), woken[1 + homes];
    unnotified_ -= left;
    for (std::size_t tried = 0; tried < std::size(woken); ++tried) {
        const std::size_t i = (first_to_wake_ + tried) % std::size(woken);
        home_servers &one = by_home_[i];
        woken[i] = std::min(left, one.unnotified);
        one.unnotified -= woken[i];
        left -= woken[i];
        if (woken[i] != 0) one.calls.fetch_add(1, std::memory_order_relaxed);
    }
    held.unlock();
    for (std::size_t i = 0; i < std::size(woken); ++i)
        for (; woken[i] != 0; --woken[i])
            wake_one(by_home_[i].calls);
}

} // namespace ferry
