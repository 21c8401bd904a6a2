// One copy by the engine of staged copies: between host memory, which threads read and write, and what a kernel of the
// current context reaches.
#pragma once

#include "exec/kernel_copy.h"
#include "staging/engine.h"

namespace ferry {

struct staged_site {
    CUcontext context; // the current one
    int device;        // its
    bool is_captured;  // the stream
};

// The plan's route must be the staged one. `view` is of the end that is no host's. `watch` is asked for by who wants to know
// how far the copy is, and stays until no launch is left; it may be null. The synchronous form needs none.
error run_staged_copy(const driver_table &cu, staging_engine &engine, const shape &shape, const copy_plan &plan,
                      const kernel_view &view, const staged_site &site, CUstream stream,
                      staged_progress *watch) noexcept;

} // namespace ferry
