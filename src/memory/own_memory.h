// Counts the pinned memory that ferry itself uses, and keeps it within ferry_options.max_pinned_bytes.
#pragma once

#include "base/budget.h"

namespace ferry {

// The user of a block of host memory: the program, or a part of ferry.
enum class host_owner : std::uint8_t {
    caller,       // ferry_host_alloc
    pool,         // a pinned pool of the program
    staging,      // staging buffers, and the records of staged copies
    tables,       // of batches
    read_buffers, // of the route BUFFERED
    links,        // the slots of relays, and the records of copies over several links
};
inline constexpr int host_owner_count = 6;
constexpr bool is_own(host_owner owner) noexcept { return owner > host_owner::pool; }

class own_memory {
public:
    void set_limit(std::uint64_t limit) noexcept { all_.set_limit(limit); }

    // As budget::take_up_to.
    std::uint64_t take_up_to(host_owner owner, std::uint64_t most, std::uint64_t least, std::uint64_t unit) noexcept {
        const std::uint64_t taken = all_.take_up_to(most, least, unit);
        part(owner).fetch_add(taken, std::memory_order_relaxed);
        return taken;
    }
    void give_back(host_owner owner, std::uint64_t bytes) noexcept {
        part(owner).fetch_sub(bytes, std::memory_order_relaxed);
        all_.give_back(bytes);
    }

    const budget &all() const noexcept { return all_; }
    std::uint64_t used(host_owner owner) const noexcept {
        return parts_[static_cast<int>(owner)].load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::uint64_t> &part(host_owner owner) noexcept { return parts_[static_cast<int>(owner)]; }

    budget all_;
    std::atomic<std::uint64_t> parts_[host_owner_count] = {};
};

} // namespace ferry
