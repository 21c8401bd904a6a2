// Tracks whether the contexts of enqueued staged copies are alive. Only a query of the context itself is reliable: a
// status returned by another call may be spurious or refer to another context.
#pragma once

#include <atomic>
#include <mutex>

#include "base/host.h"
#include "base/status.h"
#include "driver/table.h"

namespace ferry {

// Records stay valid until the instance is closed, because launches refer to them.
struct tracked_context {
    CUcontext handle = nullptr;
    unsigned long long id = 0; // another context may get the same handle; 0: the driver reports no ids
    CUevent event = nullptr;   // created by ferry, never recorded; null: the driver has no events
    mutable std::atomic<bool> is_gone = false;
    tracked_context *next = nullptr;
};

class tracked_contexts {
public:
    tracked_contexts(const driver_table &cu, const allocator &memory) noexcept : cu_(cu), memory_(memory) {}
    ~tracked_contexts();
    tracked_contexts(const tracked_contexts &) = delete;
    tracked_contexts &operator=(const tracked_contexts &) = delete;

    // Finds or creates the record of the current context.
    error track(CUcontext current, const tracked_context *&found) noexcept;
    // Returns success while the context is alive, or else the status that killed it. The queries do not wait for the
    // driver's locks (docs/driver.md). This matters because the caller may be the only thread that can finish a copy
    // for which a free in another thread waits.
    error ask(const tracked_context &one) const noexcept;
    // Must be called once the context has died or was destroyed. Another context may get its handle.
    void forget(const tracked_context &gone) noexcept;
    // Finds a context with this handle that has not been forgotten; null if not found. Several contexts may have the
    // handle: a caller that forgets each result finds all of them.
    const tracked_context *find(CUcontext handle) noexcept;
    // Destroys the events. No queries may follow.
    void close() noexcept;

private:
    error identify(CUcontext context, unsigned long long &id) const noexcept;
    error ask_once(const tracked_context &one) const noexcept;
    tracked_context *find(CUcontext handle, unsigned long long id) noexcept;

    const driver_table &cu_;
    const allocator &memory_;
    std::mutex mutex_; // guards the list; unlocked during driver calls
    tracked_context *first_ = nullptr;
};

// For callers that track no contexts and received a status that reports a death: whether the current context has died.
// Creates an event for this query, which waits for the driver's locks.
bool current_context_has_died(const driver_table &cu) noexcept;

} // namespace ferry
