// Sets up the resources of copies of pageable memory, apart from their kernel: threads and pinned memory, according to
// the options. Also the budgets of the instance, and what it uses of them.
#pragma once

#include "ferry/ferry_devices.h"
#include "submit/instance.h"

namespace ferry {

// Both are called before the first copy, with valid options; the budgets first.
void set_up_budgets(ferry_instance &instance, const ferry_options &options) noexcept;
void set_up_staging(ferry_instance &instance, const ferry_options &options) noexcept;

// Whether copies with these preferences may be staged. If so, the kind of host memory at either end is queried.
inline bool may_stage(const ferry_instance &instance, const copy_preferences &wanted) noexcept {
    return instance.stages && wanted.forced != route_kind::driver;
}

// Same as make_ready_to_stage, but also loads the kernels: into the current context if it is on the device, or else
// into the context that ferry uses for the device.
error prepare_staging(ferry_instance &instance, int device) noexcept;

// Pins the first 4 MiB of blocks into which callers read sources: a few large ones and many small ones. Without them,
// the first copies pin blocks.
void prepare_blocks(ferry_instance &instance) noexcept;

// For a pool of buffers: waits until all of its memory is back at the system. False if that fails.
bool wait_for_buffers(ferry_instance &instance, CUmemoryPool pool) noexcept;

// Releases staging buffers and other pinned memory of ferry that no copy needs.
error trim_staging(ferry_instance &instance) noexcept;
error get_staging_info(ferry_instance &instance, ferry_staging_info &info) noexcept;
error get_usage(ferry_instance &instance, ferry_usage &usage) noexcept;

} // namespace ferry
