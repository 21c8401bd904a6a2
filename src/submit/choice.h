// Chooses the route of a copy. A contiguous copy on the device of its context, without a pageable end, needs no choice.
#pragma once

#include "memory/resolve.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

// Whether no unfinished work writes the source: the caller promises it for all work except ferry's own copies. A device
// that uses the host's page tables writes pageable memory with other routes than staging, which are not tracked.
// Neither are copies to a registered part of the source. `device`: of the copy's context.
bool is_left_alone(ferry_instance &instance, const address_span &source, int device) noexcept;
// Whether the driver's call that reads a source of up to max_sent_with_commands bytes waits for nothing.
bool has_command_room(const ferry_instance &instance, const upload_stream &on, std::uint64_t bytes) noexcept;

// Queries whether the copy becomes part of a graph, and whether the work before it is complete, if that makes a
// difference. Not necessary for a contiguous copy on the context's own device.
[[gnu::noinline]] error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream,
                                       call_facts &call) noexcept;

// Returns the facts that need no driver query.
plan_facts facts_of(ferry_instance &instance, const shape &shape, CUcontext context, const call_facts &call) noexcept;
// Finds out which ends kernels can access, and at which address. For a copy of pageable memory, this refers to the
// staging kernel and the end on the device. Queries only what `ends` does not contain yet, and stores the results
// there. The copy's context, `context`, must be current.
error look_up_views(ferry_instance &instance, const shape &shape, resolved_ends &ends, CUcontext context,
                    plan_facts &facts, kernel_views &views) noexcept;
// Queries the driver for the facts that only some routes need.
error look_up_for_routes(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

// Plans step.shape: ranks the routes, makes the driver queries if the first route is not the driver route, and takes
// the first route that can serve. Sets the plan and the views of the step. look_at_stream must be called first.
[[gnu::noinline]] error choose(ferry_instance &instance, resolved_ends &ends, CUcontext context,
                               copy_step &step) noexcept;

// A graph reads the source at each launch.
constexpr error read_under_capture = {
    FERRY_ERROR_CAPTURE, FERRY_SIDE_OPTIONS, FERRY_FIELD_SOURCE_ORDER, numbers::value, 0, FERRY_SOURCE_ORDER_CALL};
// A graph writes the destination at each launch.
constexpr error written_under_capture = {
    FERRY_ERROR_CAPTURE, FERRY_SIDE_OPTIONS, FERRY_FIELD_FLAGS, numbers::value, 0, FERRY_COPY_DESTINATION_WRITTEN};

} // namespace ferry
