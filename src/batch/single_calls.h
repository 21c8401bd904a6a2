// The copies of a batch that use separate calls. Each is planned and run as a single copy.
#pragma once

#include "batch/steps.h"
#include "routes/route.h"

namespace ferry {

struct single_call {
    ferry::shape shape;
    known_ends known;
};

struct call_forecast {
    blocking wait = blocking::no;
    std::uint64_t predicted_ns = 0; // from the call until the copy is complete, for pageable memory; 0: unknown
    bool is_by_driver = false;
};

class single_calls {
public:
    explicit single_calls(const batch_submission &of) noexcept
        : of_(of), reads_(of.instance.read_buffers, of.site.stream) {}

    // Checks whether ferry or a graph rejects the copy, or would wait although it must not. Enqueues nothing.
    error check(const single_call &one) noexcept;
    error run(const single_call &one) noexcept;
    // How long the copy makes its caller wait, and how long it takes. `together` is the number of bytes of the copies
    // that it is made with, or 0 if it is alone. Many copies may use up what their route needs. Then the driver makes it.
    error explain(const single_call &one, std::uint64_t together, call_forecast &found) noexcept;

    // Same as above, for a box with its own plan.
    error check_own(const batch_box &box) noexcept;
    error run_own(const batch_box &box) noexcept;

private:
    call_facts facts() const noexcept {
        return {.context_device = of_.request.context_device,
                .form = of_.form,
                .is_captured = of_.site.is_captured,
                .preferences = preferences()};
    }
    copy_preferences preferences() const noexcept {
        copy_preferences wanted = of_.request.preferences;
        wanted.no_wait = of_.site.no_wait && !has_begun_;
        return wanted;
    }
    copy_site site() const noexcept { return {of_.site.context, of_.site.stream}; }
    error plan(const single_call &one, copy_step &step) noexcept;
    bool may_read_early(const copy_step &step) noexcept;
    error choose_for_pageable(const single_call &one, copy_step &step) noexcept;
    error run(const copy_step &step, std::uint64_t index = 0) noexcept;
    error run_helped(const copy_step &part) noexcept;

    const batch_submission &of_;
    read_block reads_;
    bool is_earlier_work_done_ = false; // the program's work on the stream, not the batch's own
    bool has_begun_ = false;            // from now on the batch is completed, even if that waits
};

} // namespace ferry
