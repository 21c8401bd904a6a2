// Staged copies that were captured into graphs. A user object of the graph gives their launches back to the board when
// nothing can run them any more. That may be after the board's end, and happens on some thread of the driver's.
#pragma once

#include <atomic>

#include "driver/table.h"
#include "staging/scheduler.h"

namespace ferry {

class graph_launches {
public:
    graph_launches(const driver_table &cu, staging_scheduler &board) noexcept : cu_(cu), board_(board) {}
    graph_launches(const graph_launches &) = delete;
    graph_launches &operator=(const graph_launches &) = delete;

    // The launches of a copy, which were captured on the stream. Where that cannot be done, or memory is short, they stay
    // taken until the engine is closed.
    void tie(CUstream stream, staging_launch &first) noexcept;
    // The board is about to end. Graphs that are destroyed later find nobody.
    void close() noexcept;

private:
    struct board_link;
    struct graph_tie;

    board_link *link() noexcept;
    static void let_go(board_link &of) noexcept;
    static void CUDA_CB release(void *tie) noexcept;

    const driver_table &cu_;
    staging_scheduler &board_;
    std::atomic<board_link *> link_ = nullptr; // null until a copy is captured
};

} // namespace ferry
