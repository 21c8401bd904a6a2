// Runs or explains one fill: lay out, resolve, check, choose the context, plan, run.
#pragma once

#include "exec/graph_target.h"
#include "plan/plan.h"
#include "submit/instance.h"

namespace ferry {

// Fills `found` with what run_fill would do.
error explain_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted,
                   copy_form form, CUstream stream, ferry_explanation &found) noexcept;

// `ticket` may be null. Otherwise it reports the end of an asynchronous fill.
error run_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted, copy_form form,
               CUstream stream, ferry_ticket *ticket) noexcept;

// Makes the fill a node of a graph. Refuses an empty fill.
[[gnu::cold]] error set_fill(ferry_instance &instance, const ferry_fill_desc &desc, const copy_preferences &wanted,
                             graph_target &target) noexcept;

} // namespace ferry
