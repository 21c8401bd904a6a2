// One copy by the staging engine: between host memory, which workers read and write, and memory or an array that a
// kernel of the current context can access.
#pragma once

#include "exec/kernel_copy.h"
#include "staging/engine.h"

namespace ferry {

struct staged_site {
    CUcontext context; // the current context
    int device;        // device of that context
    bool is_captured;  // the stream is being captured
    bool is_stream_idle;
    bool must_start_soon; // see ferry::staged_copy
    const staged_helper *helpers = nullptr;
    std::uint32_t helper_count = 0;
    const std::uint64_t *targets = nullptr; // for a broadcast
    std::uint32_t target_count = 0;
};

// The plan's route must be staging. `view` is the kernel's view of the end on the device. `progress` receives the
// progress of the copy, and must stay valid until no launch is left. It may be null. Synchronous copies do not use it.
[[gnu::noinline]] error run_staged_copy(const driver_table &cu, staging_engine &engine, const shape &shape,
                                        const copy_plan &plan, const kernel_view &view, const staged_site &site,
                                        CUstream stream, staged_progress *progress) noexcept;

} // namespace ferry
