// One copy by the staging engine: between host memory, which workers read and write, and memory or an array that a
// kernel of the current context reaches.
#pragma once

#include "exec/kernel_copy.h"
#include "staging/engine.h"

namespace ferry {

struct staged_site {
    CUcontext context; // the current one
    int device;        // of that context
    bool is_captured;  // the stream is being captured
    bool is_stream_idle;
    bool must_start_soon; // see ferry::staged_copy
    const staged_helper *helpers = nullptr;
    std::uint32_t helper_count = 0;
    const std::uint64_t *targets = nullptr; // of a broadcast
    std::uint32_t target_count = 0;
};

// The plan's route must be the staged one. `view` is the kernel's view of the device's end. `progress` receives the
// progress of the copy, and must live until no launch is left. It may be null. A synchronous copy does not use it.
[[gnu::noinline]] error run_staged_copy(const driver_table &cu, staging_engine &engine, const shape &shape,
                                        const copy_plan &plan, const kernel_view &view, const staged_site &site,
                                        CUstream stream, staged_progress *progress) noexcept;

} // namespace ferry
