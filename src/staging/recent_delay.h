// A delay of staged copies as the last of them saw it. It rises at once, falls with each copy that was not late, and
// fades while nothing is measured, so that a route that was avoided is tried again.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// Any thread may call anything. Two samples at one moment may become one.
class recent_delay {
public:
    // Shorter ones are part of every copy.
    static constexpr std::uint64_t least_ns = 100'000;

    void add(std::uint64_t sample_ns, std::uint64_t now) noexcept {
        const std::uint64_t before = at(now), late = sample_ns < least_ns ? 0 : sample_ns;
        const std::uint64_t after = late > before ? late : before - (before - late) / 4;
        if (after == 0 && before == 0) return;
        delay_ns_.store(after < least_ns ? 0 : after, std::memory_order_relaxed);
        measured_ns_.store(now, std::memory_order_relaxed);
    }
    // 0: none.
    std::uint64_t at(std::uint64_t now) const noexcept {
        constexpr std::uint64_t half_life_ns = 50'000'000, most = 63;
        const std::uint64_t delay = delay_ns_.load(std::memory_order_relaxed);
        const std::uint64_t measured = measured_ns_.load(std::memory_order_relaxed);
        if (delay == 0 || now <= measured) return delay;
        const std::uint64_t half_lives = (now - measured) / half_life_ns;
        const std::uint64_t left = delay >> (half_lives < most ? half_lives : most);
        return left < least_ns ? 0 : left;
    }
    bool is_any() const noexcept { return delay_ns_.load(std::memory_order_relaxed) != 0; }

private:
    std::atomic<std::uint64_t> delay_ns_ = 0, measured_ns_ = 0;
};

} // namespace ferry
