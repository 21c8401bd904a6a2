// Chooses the route of a copy. A plain line on the device of its context, without a pageable end, needs no choice.
#pragma once

#include "memory/resolve.h"
#include "routes/route.h"
#include "submit/instance.h"

namespace ferry {

// Finds out whether the copy becomes part of a graph, and whether the work before it is complete, where that makes a
// difference. Not needed for a plain line on the context's own device.
[[gnu::noinline]] error look_at_stream(ferry_instance &instance, const shape &shape, CUstream stream,
                                       call_facts &call) noexcept;

// The facts that need no driver query.
plan_facts facts_of(ferry_instance &instance, const shape &shape, CUcontext context, const call_facts &call) noexcept;
// The facts that only some route needs, by driver queries.
error look_up_for_routes(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

// Plans step.shape: ranks the routes, makes the driver queries if the first one is not the driver route, and takes the
// first route that can serve. Sets the plan and the views of the step. Call look_at_stream before.
[[gnu::noinline]] error choose(ferry_instance &instance, resolved_ends &ends, CUcontext context,
                               copy_step &step) noexcept;

// A graph reads the source at each launch.
constexpr error read_under_capture = {FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0,
                                      FERRY_COPY_SOURCE_READ};
// And it writes the destination at each launch.
constexpr error written_under_capture = {FERRY_ERROR_CAPTURE, FERRY_SIDE_DESCRIPTOR, FERRY_FIELD_FLAGS, 0,
                                         FERRY_COPY_DESTINATION_WRITTEN};

} // namespace ferry
