// Tickets: who has asked for a copy on a stream can see how far it is.
#pragma once

#include <atomic>
#include <mutex>

#include "base/chain.h"
#include "staging/scheduler.h"

struct ferry_ticket {
    explicit ferry_ticket(ferry_instance &of) noexcept : instance(of) {}

    ferry_instance &instance;
    CUevent passed = nullptr; // recorded behind the copy; null of one of nothing
    bool is_watched = false;  // it is staged, in one go
    ferry::staged_progress watch;
    std::atomic<std::uint64_t> bytes_done_at_query = 0; // what the last query found to have arrived
    std::int32_t route = FERRY_ROUTE_NONE;
    std::uint64_t total = 0; // bytes
    ferry_ticket *previous = nullptr, *next = nullptr;
};

namespace ferry {

// Those that nobody has. Threads may still write to the watch of one that was released early.
class ticket_pool {
public:
    explicit ticket_pool(const allocator &memory) noexcept : memory_(memory) {}
    // When nothing is staged any more.
    ~ticket_pool();
    ticket_pool(const ticket_pool &) = delete;
    ticket_pool &operator=(const ticket_pool &) = delete;

    ferry_ticket *take(ferry_instance &instance) noexcept; // as new; null where there is no memory
    void release(ferry_ticket &ticket) noexcept;

private:
    const allocator &memory_;
    std::mutex mutex_;
    chain<ferry_ticket> free_;
};

// As run_copy on a stream.
error run_copy_with_ticket(ferry_instance &instance, const ferry_copy_desc &copy, CUstream stream,
                           ferry_ticket *&ticket) noexcept;
error query_ticket(ferry_ticket &ticket, ferry_ticket_info &info) noexcept;
// The copy's own status.
error wait_for_ticket(ferry_ticket &ticket) noexcept;
error release_ticket(ferry_ticket &ticket) noexcept;

} // namespace ferry
