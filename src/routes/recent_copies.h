// Remembers the last small copy from pageable memory to a device that the driver performed on an idle stream. The
// driver's call returns when it has read the source, several microseconds before the stream is idle again. A loop of
// such copies finds the stream busy with its own previous copy, which is no reason to stage the next copy.
#pragma once

#include <atomic>
#include <cstdint>

#include "driver/table.h"
#include "system/threads.h"

namespace ferry {

// All functions may be called by any thread. Of two streams in use at the same time, one may be forgotten.
class recent_copies {
public:
    void note(CUstream stream) noexcept {
        noted_ns_.store(clock_ns(), std::memory_order_relaxed);
        stream_.store(stream, std::memory_order_relaxed);
    }
    bool is_recent(CUstream stream) const noexcept {
        constexpr std::uint64_t recent_ns = 50'000;
        return stream_.load(std::memory_order_relaxed) == stream &&
               clock_ns() - noted_ns_.load(std::memory_order_relaxed) < recent_ns;
    }

private:
    std::atomic<CUstream> stream_ = nullptr;
    std::atomic<std::uint64_t> noted_ns_ = 0;
};

} // namespace ferry
