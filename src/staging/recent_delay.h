// The most recent delay of staged copies. A longer delay takes effect immediately. Each copy that starts on time
// reduces the delay. Without measurements, the delay decays, so that a route that was avoided is tried again.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// All functions may be called by any thread. Of two simultaneous samples, one may be lost.
class recent_delay {
public:
    // Shorter delays are part of every copy.
    static constexpr std::uint64_t least_ns = 100'000;

    void add(std::uint64_t sample_ns, std::uint64_t now) noexcept {
        const std::uint64_t before = at(now), late = sample_ns < least_ns ? 0 : sample_ns;
        const std::uint64_t after = late > before ? late : before - (before - late) / 4;
        if (after == 0 && before == 0) return;
        delay_ns_.store(after < least_ns ? 0 : after, std::memory_order_relaxed);
        measured_ns_.store(now, std::memory_order_relaxed);
    }
    // 0: no delay.
    std::uint64_t at(std::uint64_t now) const noexcept {
        constexpr std::uint64_t half_life_ns = 50'000'000, max_half_lives = 63;
        const std::uint64_t delay = delay_ns_.load(std::memory_order_relaxed);
        const std::uint64_t measured = measured_ns_.load(std::memory_order_relaxed);
        if (delay == 0 || now <= measured) return delay;
        const std::uint64_t half_lives = (now - measured) / half_life_ns;
        const std::uint64_t left = delay >> (half_lives < max_half_lives ? half_lives : max_half_lives);
        return left < least_ns ? 0 : left;
    }
    bool is_any() const noexcept { return delay_ns_.load(std::memory_order_relaxed) != 0; }

private:
    std::atomic<std::uint64_t> delay_ns_ = 0, measured_ns_ = 0;
};

} // namespace ferry
