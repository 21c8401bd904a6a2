// The steps of one submission of a batch, in the order in which they run. They are made once, and the check, the
// execution and the explanation of the submission read them. So an explanation cannot differ from the execution.
#pragma once

#include "batch/request.h"
#include "routes/driver.h"

namespace ferry {

struct staging_choice; // pageable.h

struct batch_submission {
    ferry_instance &instance;
    const batch_request &request; // planned
    copy_form form;               // synchronous: only for requests of a single call
    const launch_site &site;

    // In any context other than the request's context, kernels can access neither its memory nor its surfaces.
    bool is_at_home() const noexcept { return site.context == request.context.wanted; }
};

// The copies of one route. A batch call or a kernel copies either pieces or boxes. A staged step copies the pieces and
// boxes of one direction.
struct batch_step {
    batch_route route;
    bool has_pieces, has_boxes;
    piece_group group;          // of pieces, of a staged step, or of boxes that a kernel copies
    box_source source;          // of boxes that a kernel copies
    std::uint16_t blocks;       // maximum of the kernel
    bool is_helped;             // staged: the calling thread takes part in the copy until it is complete
    bool is_first;              // staged: no work of the program or of the batch precedes the copy on the stream
    std::size_t first_line;     // of the pieces of a batch call, in the request's lines
    std::uint64_t delay_ns;     // staged: the recent staging delay that predicted_ns includes
    std::uint64_t predicted_ns; // 0: unknown
    // Single calls for boxes exclude boxes that were planned to be staged. The single calls for the pieces of their
    // group count these boxes, because the prediction covers both.
    std::uint64_t copies, bytes;
};

class batch_steps {
public:
    // Enqueues nothing.
    error make(const batch_submission &of) noexcept;

    batch_step *begin() noexcept { return all_; }
    batch_step *end() noexcept { return all_ + count_; }
    const batch_step *begin() const noexcept { return all_; }
    const batch_step *end() const noexcept { return all_ + count_; }

    // Calls `action` for each box of the step.
    template <class Action>
    error for_each_box(const batch_step &step, const growing<batch_box> &boxes, const Action &action) const noexcept {
        if (step.has_boxes)
            for (const batch_box &box : boxes)
                if (contains(step, box))
                    if (error failed = action(box)) return failed;
        return {};
    }

private:
    // The boxes of one route. Boxes that were planned to be staged do not count as copies.
    struct box_sum {
        std::uint64_t boxes, copies, bytes;
    };
    struct box_sums {
        box_sum of[all_batch_routes] = {};
        std::uint64_t pageable[2] = {}; // the boxes that were planned to be staged, by direction
    };

    // A prepared batch is planned once for all streams, so its plan may name a route that cannot serve on this stream.
    batch_route route_of(batch_route planned, piece_group group) const noexcept;
    batch_route route_of(const batch_box &box) const noexcept;
    bool contains(const batch_step &step, const batch_box &box) const noexcept;
    box_sums sum_boxes(const growing<batch_box> &boxes) const noexcept;

    batch_step &add(batch_route route, int group, bool has_boxes) noexcept;
    void add_boxes(batch_route route, const box_sums &sums) noexcept;
    void add_calls_of_pieces(const batch_request &request, const box_sums &sums,
                             const staging_choice (&staging)[2]) noexcept;
    void add_kernels_of_boxes(const batch_request &request) noexcept;
    void add_pieces(const batch_request &request) noexcept;
    void add_staged(const batch_request &request, const box_sums &sums, const staging_choice (&staging)[2]) noexcept;

    // One step for the boxes of each route without groups (calls, own, batch_call). For each group, one step for its
    // pieces, and one for the boxes of each source that a kernel copies.
    static constexpr int max_steps = 3 + piece_groups * (1 + box_sources);

    batch_step all_[max_steps]; // only the first count_ are initialised
    int count_ = 0;
    bool is_at_home_ = false, is_captured_ = false, takes_batch_calls_ = false;
    bool are_staged_[2] = {}; // the request's pageable copies, by direction
};

// Makes the steps and checks them before anything is enqueued. `refused` is the copy that ferry rejects, for
// index_of(), or empty.
error make_checked_steps(const batch_submission &of, batch_steps &steps, shape &refused) noexcept;

// If the driver rejects a call, the work that was enqueued before that call stays enqueued.
error run_steps(const batch_submission &of, const batch_steps &steps) noexcept;

// How long the submission makes its caller wait. Also predicts the single calls for pageable memory, whose routes depend
// on the stream.
error explain_calls(const batch_submission &of, batch_steps &steps, blocking &longest) noexcept;

// Sets everything except the device, the broadcasts and the wait.
void explain_steps(const batch_submission &of, const batch_steps &steps, ferry_batch_explanation &found) noexcept;

} // namespace ferry
