// Contexts that staged copies are enqueued in, and whether they live. Only the context itself can say so: a status that some
// call returns may be another context's, or spurious.
#pragma once

#include <atomic>
#include <mutex>

#include "base/host.h"
#include "base/status.h"
#include "driver/table.h"

namespace ferry {

// Kept until the instance is closed, as launches name it.
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

    // The current context.
    failure track(CUcontext current, const tracked_context *&found) noexcept;
    // Success while the context lives, else the status of its death. The queries used do not wait for the driver's locks
    // (docs/driver.md): the caller may be the only thread that can finish what a free in another thread waits for.
    failure ask(const tracked_context &one) const noexcept;
    // It has died or been destroyed. Its handle may become another's.
    void forget(const tracked_context &gone) noexcept;
    // Those with this handle that have not been forgotten, one after the other; null: no more.
    const tracked_context *find(CUcontext handle) noexcept;
    // Destroys the events. Nothing is asked any more.
    void close() noexcept;

private:
    failure identify(CUcontext context, unsigned long long &id) const noexcept;
    failure ask_once(const tracked_context &one) const noexcept;
    tracked_context *find(CUcontext handle, unsigned long long id) noexcept;

    const driver_table &cu_;
    const allocator &memory_;
    std::mutex mutex_; // of the list; not held during driver calls
    tracked_context *first_ = nullptr;
};

// For those who track no contexts and were told of a death: whether it is the current context's. It is asked to make an event,
// which waits for the driver's locks.
bool current_context_has_died(const driver_table &cu) noexcept;

} // namespace ferry
