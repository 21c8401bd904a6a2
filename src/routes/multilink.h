// The functions of the multilink route that are used in addition to its entry in the table.
#pragma once

#include "plan/plan.h"

namespace ferry {

// Whether to look up the links that a copy can use.
bool may_take_links(const shape &shape, const call_facts &call) noexcept;

} // namespace ferry
