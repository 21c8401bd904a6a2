// The properties of a device, queried once at open.
#pragma once

#include "base/status.h"
#include "driver/table.h"

namespace ferry {

struct device_facts {
    CUdevice handle = 0;
    bool has_watchdog = false; // a kernel that runs for some seconds is ended, together with its context
    // WDDM: the driver may keep what is enqueued until a call that looks at the stream.
    bool keeps_work_back = false;
    ferry_device_info info = {};
};

error query_device(const driver_table &cu, int ordinal, bool is_software, device_facts &facts) noexcept;

// The overlap, FERRY_COPY_OVERLAP_*, that a number of copy engines allows.
constexpr std::int32_t overlap_of(std::int32_t copy_engine_count) noexcept {
    if (copy_engine_count <= 0) return FERRY_COPY_OVERLAP_NONE;
    if (copy_engine_count == 1) return FERRY_COPY_OVERLAP_ONE_WAY;
    return copy_engine_count == 2 ? FERRY_COPY_OVERLAP_BOTH_WAYS : FERRY_COPY_OVERLAP_BOTH_AND_MORE;
}

} // namespace ferry
