// Whether a context is dead, asked without waiting for its work.
#pragma once

#include "device/contexts.h"

namespace ferry {

// What the driver reports of `context`: the status that ended it, or of the calls that ask.
std::int32_t context_status(const driver_table &cu, CUcontext context) noexcept;

} // namespace ferry
