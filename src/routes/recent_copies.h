// Remembers the last small copy from pageable memory to a device that the driver made on an idle stream. The driver's
// call returns when it has read the source, some microseconds before the stream is idle again. A loop of such copies
// finds the stream busy with its own last copy, which is no reason to stage the next one.
#pragma once

#include <atomic>
#include <cstdint>

#include "driver/table.h"
#include "system/threads.h"

namespace ferry {

// Any thread may call anything. Of two streams that are used at one time, one may be forgotten.
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
