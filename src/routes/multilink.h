// What others than the table use of the route over several links.
#pragma once

#include "plan/plan.h"

namespace ferry {

// Whether to look for the links that a copy can take.
bool may_take_links(const shape &shape, const call_facts &call) noexcept;

} // namespace ferry
