// What copies of pageable memory need beside their kernel: threads and pinned memory, as the options say.
#pragma once

#include "submit/instance.h"

namespace ferry {

// The options are right. Before anything is copied.
void set_up_staging(ferry_instance &instance, const ferry_options &options) noexcept;

// Whether the instance stages at all; then the memory of hosts' ends is asked for.
inline bool may_stage(const ferry_instance &instance, std::uint32_t flags) noexcept {
    return instance.stages && !(flags & (FERRY_COPY_NO_KERNELS | FERRY_COPY_BY_DRIVER));
}

// Makes sure that there is what an asynchronous copy on the device needs; false where there is none. Any context of the
// device must be current.
bool is_ready_to_stage(ferry_instance &instance, int device) noexcept;

// The same, and the kernels, in the current context if it is of the device.
error prepare_staging(ferry_instance &instance, int device) noexcept;

// Gives back what no copy needs.
error trim_staging(ferry_instance &instance) noexcept;
error get_staging_info(ferry_instance &instance, ferry_staging_info &info) noexcept;

} // namespace ferry
