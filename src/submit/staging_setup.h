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
failure prepare_staging(ferry_instance &instance, int device) noexcept;

// Gives back what no copy needs.
failure trim_staging(ferry_instance &instance) noexcept;
failure tell_of_staging(ferry_instance &instance, ferry_staging_info &info) noexcept;

// A call has failed. Where its status is one of dead contexts, each context with staged copies is asked whether it is dead:
// the status alone proves nothing, as it may be another context's.
void note_failure(ferry_instance &instance, const failure &failed) noexcept;
// And hands it on.
inline std::int32_t noted(ferry_instance &instance, std::int32_t status) noexcept {
    if (status) note_failure(instance, {.status = status});
    return status;
}

} // namespace ferry
