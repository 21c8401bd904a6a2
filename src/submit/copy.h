// One copy: run, or told about.
#pragma once

#include "plan/plan.h"
#include "submit/instance.h"

namespace ferry {

error run_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream) noexcept;

// What run_copy would do, as things are. Nothing is copied.
[[gnu::cold]] error explain_copy(ferry_instance &instance, const ferry_copy_desc &copy, copy_form form, CUstream stream,
                                 ferry_explanation &found) noexcept;

} // namespace ferry
