// Contexts that programs name.
#pragma once

#include "call/instance.h"

namespace ferry {

// The one that was named, else the one ferry uses for the device.
failure named_or_own(ferry_instance &instance, std::int32_t device, CUcontext named, CUcontext &context) noexcept;

// And forgets what was known of it.
failure destroy_context(ferry_instance &instance, CUcontext context) noexcept;

} // namespace ferry
