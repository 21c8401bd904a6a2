// Tracks whether the contexts that staged copies are enqueued in are alive. Only a query of the context itself is
// reliable: a status that some call returns may be another context's, or spurious.
#pragma once

#include <atomic>
#include <mutex>

#include "base/host.h"
#include "base/status.h"
#include "driver/table.h"

namespace ferry {

// Kept until the instance is closed, because launches refer to it.
struct tracked_context {
    CUcontext handle = nullptr;
    unsigned long long id = 0; // another context may get the same handle; 0: the driver has no ids
    CUevent event = nullptr;   // ferry's own, never recorded; null: the driver has no events
    mutable std::atomic<bool> is_gone = false;
    tracked_context *next = nullptr;
};

class tracked_contexts {
public:
    tracked_contexts(const driver_table &cu, const allocator &memory) noexcept : cu_(cu), memory_(memory) {}
    ~tracked_contexts();
    tracked_contexts(const tracked_contexts &) = delete;
    tracked_contexts &operator=(const tracked_contexts &) = delete;

    // Finds or makes the record of the current context.
    error track(CUcontext current, const tracked_context *&found) noexcept;
    // Returns success while the context lives, else the status of its death. The queries do not wait for the driver's
    // locks (docs/driver.md): the caller may be the only thread that can finish a copy that a free in another thread
    // waits for.
    error ask(const tracked_context &one) const noexcept;
    // Called once the context has died or been destroyed. Another context may get its handle.
    void forget(const tracked_context &gone) noexcept;
    // Finds a context with this handle that has not been forgotten; null where there is none. A caller that forgets
    // each one finds them all.
    const tracked_context *find(CUcontext handle) noexcept;
    // Destroys the events. No queries may follow.
    void close() noexcept;

private:
    error identify(CUcontext context, unsigned long long &id) const noexcept;
    error ask_once(const tracked_context &one) const noexcept;
    tracked_context *find(CUcontext handle, unsigned long long id) noexcept;

    const driver_table &cu_;
    const allocator &memory_;
    std::mutex mutex_; // guards the list; not held during driver calls
    tracked_context *first_ = nullptr;
};

// For callers that track no contexts and got a status that reports a death: whether it is that of the current context.
// Creates an event to find out, which waits for the driver's locks.
bool current_context_has_died(const driver_table &cu) noexcept;

} // namespace ferry
