// Runs one fill: lay out, resolve, check, choose the context, plan, run.
#pragma once

#include "plan/plan.h"
#include "submit/instance.h"

namespace ferry {

error run_fill(ferry_instance &instance, const ferry_fill_desc &desc, copy_form form, CUstream stream) noexcept;

} // namespace ferry
