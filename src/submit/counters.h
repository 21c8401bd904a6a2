// Counts what each route has copied on each device. A count takes some nanoseconds: threads with different streams mostly
// count in different cache lines.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/route_kind.h"
#include "device/contexts.h"
#include "ferry/ferry_devices.h"

namespace ferry {

class route_counters {
public:
    void add(int device, route_kind route, CUstream stream, std::uint64_t copies, std::uint64_t bytes,
             std::uint64_t waited_ns = 0) noexcept {
        constexpr int low_bits = 4; // handles are at least this far apart
        const std::size_t shard = reinterpret_cast<std::uintptr_t>(stream) >> low_bits;
        counter &one = shards_[shard % shards][device].of[static_cast<int>(route)];
        one.copies.fetch_add(copies, relaxed);
        one.bytes.fetch_add(bytes, relaxed);
        if (waited_ns) one.waited_ns.fetch_add(waited_ns, relaxed);
    }
    // The numbers may belong to slightly different times.
    [[gnu::cold]] void sum(int device, ferry_device_counters &found) const noexcept {
        const auto add_up = [&](route_kind route, ferry_route_counters &to) noexcept {
            for (const auto &shard : shards_) {
                const counter &one = shard[device].of[static_cast<int>(route)];
                to.copies += one.copies.load(relaxed);
                to.bytes += one.bytes.load(relaxed);
                to.waited_ns += one.waited_ns.load(relaxed);
            }
        };
        found = {};
#define FERRY_ROUTE(name, ...) add_up(route_kind::name, found.name);
        FERRY_ROUTES(FERRY_ROUTE)
#undef FERRY_ROUTE
    }

private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    static constexpr std::size_t shards = 4;
    struct counter {
        std::atomic<std::uint64_t> copies = 0, bytes = 0, waited_ns = 0;
    };
    struct alignas(64) device_counters {
        counter of[route_count + 1]; // by route_kind
    };

    device_counters shards_[shards][device_contexts::max_devices];
};

} // namespace ferry
