// Staged copies that were captured into graphs. A user object of the graph gives their launches back to the board when
// nothing can run them any more. That may be after the board's end, and happens on some thread of the driver's.
#pragma once

#include <atomic>

#include "driver/table.h"
#include "staging/scheduler.h"

namespace ferry {

class graph_ties {
public:
    graph_ties(const driver_table &cu, staged_board &board) noexcept : cu_(cu), board_(board) {}
    graph_ties(const graph_ties &) = delete;
    graph_ties &operator=(const graph_ties &) = delete;

    // The launches of a copy, which were captured on the stream. Where that cannot be done, or memory is short, they stay
    // taken until the engine is closed.
    void tie(CUstream stream, staged_job &first) noexcept;
    // The board is about to end. Graphs that are destroyed later find nobody.
    void close() noexcept;

private:
    struct board_link;
    struct graph_tie;

    board_link *link() noexcept;
    static void let_go(board_link &of) noexcept;
    static void CUDA_CB release(void *tie) noexcept;

    const driver_table &cu_;
    staged_board &board_;
    std::atomic<board_link *> link_ = nullptr; // null until a copy is captured
};

} // namespace ferry
