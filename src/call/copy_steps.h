// Steps of a copy that those in batches take too; none of them is on a plain copy's way.
#pragma once

#include "call/instance.h"
#include "plan/plan.h"
#include "route/driver_route.h"
#include "route/kernel_copy.h"

namespace ferry {

// Of the ends that are arrays.
[[gnu::noinline]] failure look_up_arrays(const driver_table &cu, const ferry_copy_desc &copy,
                                         resolved_ends &ends) noexcept;

// An end on the device of the copy's context keeps that context.
[[gnu::noinline]] failure find_contexts(ferry_instance &instance, const shape &shape, int context_device,
                                        end_contexts &contexts) noexcept;

// For copies whose plan names contexts: nothing, unless the stream is being captured. Graphs do not take the calls that
// name contexts. They take the plain ones, which find all memory but that of pools: that they check against the current
// context, whichever stream the copy is on (docs/driver.md).
[[gnu::cold, gnu::noinline]] failure enter_for_graph(ferry_instance &instance, const shape &shape, CUstream stream,
                                                     CUcontext of_stream, plan_facts &facts, copy_plan &plan,
                                                     context_scope &scope) noexcept;

// Which ends kernels reach, and where. The copy's context, `context`, must be current.
failure look_up_views(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts,
                      kernel_views &views) noexcept;

// What a choice hangs on, but for what the driver must be asked.
void begin_choice(const ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts) noexcept;

// Where there is a choice. Lines without wishes never come here.
[[gnu::noinline]] failure choose(ferry_instance &instance, const shape &shape, CUcontext context, plan_facts &facts,
                                 kernel_views &views, copy_plan &plan) noexcept;

// Where the driver refuses a copy because host memory is registered in pieces, one call for each.
[[gnu::cold, gnu::noinline]] void run_refused_in_parts(ferry_instance &instance, const shape &shape,
                                                       const plan_facts &facts, const end_contexts &contexts,
                                                       CUstream stream, failure &result) noexcept;

} // namespace ferry
