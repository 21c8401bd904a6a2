// Internal streams, on which an empty kernel tests whether the device has a free SM.
#pragma once

#include <atomic>

#include "device/tracked_contexts.h"

namespace ferry {

struct side_stream {
    CUstream handle = nullptr;

private:
    friend class side_streams;
    const tracked_context *context = nullptr; // null: not created
    std::atomic<bool> is_taken = false;
};

class side_streams {
public:
    explicit side_streams(const driver_table &cu) noexcept : cu_(cu) {}

    // Takes a stream of the current context, for exclusive use until release(). Returns null if none is available: only
    // a few are created.
    side_stream *take(const tracked_context &current) noexcept;
    static void release(side_stream &taken) noexcept { taken.is_taken.store(false, std::memory_order_release); }
    // No other calls may follow.
    void close() noexcept;

private:
    bool make(side_stream &one, const tracked_context &context) const noexcept;

    const driver_table &cu_;
    side_stream all_[32];
};

} // namespace ferry
