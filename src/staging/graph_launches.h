// Staged copies that were captured into graphs. When nothing can run their launches any more, a user object of the
// graph returns the launches to the scheduler. This happens on a thread of the driver, and possibly after the scheduler
// has been closed.
#pragma once

#include <atomic>

#include "driver/table.h"
#include "staging/scheduler.h"

namespace ferry {

class graph_launches {
public:
    graph_launches(const driver_table &cu, staging_scheduler &scheduler) noexcept : cu_(cu), scheduler_(scheduler) {}
    graph_launches(const graph_launches &) = delete;
    graph_launches &operator=(const graph_launches &) = delete;

    // Ties the launches of a copy to the graph into which they were captured on the stream. If that is impossible or
    // memory runs out, the launches stay in use until the engine is closed.
    void tie(CUstream stream, staging_launch &first) noexcept;
    // Must be called before the scheduler is destroyed. Graphs that are destroyed later return nothing.
    void close() noexcept;

private:
    struct scheduler_link;
    struct graph_tie;

    scheduler_link *link() noexcept;
    static void drop_reference(scheduler_link &of) noexcept;
    static void CUDA_CB release(void *tie) noexcept;

    const driver_table &cu_;
    staging_scheduler &scheduler_;
    std::atomic<scheduler_link *> link_ = nullptr; // null until a copy is captured
};

} // namespace ferry
