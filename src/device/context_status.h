// Queries whether a context is dead, without waiting for its work.
#pragma once

#include "device/contexts.h"

namespace ferry {

// Returns the error that killed `context`, or an error of the query itself.
status_code context_status(const driver_table &cu, CUcontext context) noexcept;

} // namespace ferry
