// Counts how much of a resource an instance uses, and refuses what exceeds a limit. Lock-free.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/status.h"

namespace ferry {

class budget {
public:
    // Must be called before any other function. Without this call, there is no limit.
    void set_limit(std::uint64_t limit) noexcept { limit_ = limit; }

    [[nodiscard]] bool take(std::uint64_t amount) noexcept { return take_up_to(amount, amount) == amount; }
    // Takes `most`, or a smaller multiple of `unit` that is at least `least`. A smaller amount leaves as much as it
    // takes if possible, so that no user takes all that is left. Returns 0 if less than `least` is left.
    [[nodiscard]] std::uint64_t take_up_to(std::uint64_t most, std::uint64_t least, std::uint64_t unit = 1) noexcept {
        std::uint64_t used = used_.load(std::memory_order_relaxed), taken = 0;
        do {
            const std::uint64_t left = limit_ - used;
            taken = std::min(most, std::max(left / 2 / unit * unit, least));
            if (limit_ == no_limit) taken = most;
            if (taken > left) return note_refusal(), 0;
        } while (!used_.compare_exchange_weak(used, used + taken, std::memory_order_relaxed));
        if (taken < most) note_refusal();
        return taken;
    }
    void give_back(std::uint64_t amount) noexcept { used_.fetch_sub(amount, std::memory_order_relaxed); }
    void note_refusal() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }

    std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
    std::uint64_t left() const noexcept { return limit_ == no_limit ? no_limit : limit_ - used(); }
    // How often a request was refused or got less than it wanted.
    std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }
    // The error of a refused request. `field` is the option that sets the limit.
    [[gnu::cold]] error refuse(std::int32_t field, std::uint64_t amount) const noexcept {
        return refuse_option(FERRY_ERROR_LIMIT, field, numbers::at_most, limit_, used() + amount);
    }

private:
    static constexpr std::uint64_t no_limit = UINT64_MAX;
    std::uint64_t limit_ = no_limit;
    std::atomic<std::uint64_t> used_ = 0, refused_ = 0;
};

} // namespace ferry
