// Runs or explains one copy.
#pragma once

#include "plan/plan.h"
#include "submit/instance.h"

namespace ferry {

[[gnu::hot]] error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form,
                            CUstream stream) noexcept;

// Reports what run_copy would do in the current state. Copies nothing.
[[gnu::cold]] error explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                                 ferry_explanation &found) noexcept;

} // namespace ferry
