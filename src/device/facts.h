// The properties of a device, queried once at open.
#pragma once

#include "base/status.h"
#include "driver/table.h"
#include "ferry/ferry_devices.h"

namespace ferry {

struct device_facts {
    CUdevice handle = 0;
    bool has_watchdog = false; // a kernel that runs for several seconds is killed, together with its context
    // WDDM: the driver may delay enqueued work until a call accesses the stream.
    bool keeps_work_back = false;
    ferry_device_info info = {};
};

error query_device(const driver_table &cu, int ordinal, bool is_software, device_facts &facts) noexcept;

// Returns the overlap, FERRY_COPY_OVERLAP_*, that this number of copy engines permits.
constexpr std::int32_t overlap_of(std::int32_t copy_engine_count) noexcept {
    if (copy_engine_count <= 0) return FERRY_COPY_OVERLAP_NONE;
    if (copy_engine_count == 1) return FERRY_COPY_OVERLAP_ONE_WAY;
    return copy_engine_count == 2 ? FERRY_COPY_OVERLAP_BOTH_WAYS : FERRY_COPY_OVERLAP_BOTH_AND_MORE;
}

} // namespace ferry
