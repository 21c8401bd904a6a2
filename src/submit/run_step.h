// Enqueues steps: copies whose route is chosen.
#pragma once

#include "base/function_ref.h"
#include "routes/route.h"
#include "routes/staged.h"
#include "submit/instance.h"

namespace ferry {

// Returns the same copy with the driver's call.
inline copy_step by_driver(const copy_step &step) noexcept {
    copy_step driver = {step.shape, step.call, plan_for_driver(step.shape, step.call), {}};
    driver.plan.are_threads_late = step.plan.are_threads_late;
    driver.plan.are_threads_asleep = step.plan.are_threads_asleep;
    return driver;
}

// Runs a step with its route. A copy that crosses borders of registered memory runs in parts. If the route runs out of
// memory, the driver performs the copy, unless the caller forces the route or `progress` has started to count.
[[gnu::hot]] error run_step(ferry_instance &instance, const copy_step &step, const copy_site &site,
                            staged_progress *progress = nullptr) noexcept;

// Checks whether a graph accepts the step. Enqueues nothing.
[[gnu::cold, gnu::noinline]] error check_capture(ferry_instance &instance, const copy_step &step,
                                                 const copy_site &site) noexcept;

// The same, and checks whether the call would wait although it must not.
[[gnu::cold, gnu::noinline]] error check_step(ferry_instance &instance, const copy_step &step,
                                              const copy_site &site) noexcept;

// Whether the host memory is registered in part, or in several pieces. Such a copy must be split before it can be
// staged or the driver accepts it.
bool is_in_parts(const ferry_instance &instance, const shape &shape) noexcept;

// Plans each part as a separate copy and calls `then(part)`, until a call fails. Registered memory is never staged.
// look_at_stream must be called first, even if the whole copy needs no choice.
[[gnu::cold]] error for_each_part_step(ferry_instance &instance, const shape &whole, const call_facts &call,
                                       const copy_site &site, function_ref<error(const copy_step &)> then) noexcept;

// Calls `then` for the whole step, or for each of the parts in which it is run.
error for_each_step(ferry_instance &instance, const copy_step &whole, const copy_site &site,
                    function_ref<error(const copy_step &)> then) noexcept;

} // namespace ferry
