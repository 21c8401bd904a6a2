// Calls functions of the program after the work on a stream.
#pragma once

#include "submit/instance.h"

namespace ferry {

// Calls done(user, status) once the work that is on the stream now has ended. Does not call it if this function fails.
error notify_behind(ferry_instance &instance, CUstream stream, void (*done)(void *user, std::int32_t status),
                    void *user) noexcept;

} // namespace ferry
