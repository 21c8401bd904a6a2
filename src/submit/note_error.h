// Handles the consequences of a failed call for staged copies in flight.
#pragma once

#include "submit/instance.h"

namespace ferry {

// If the status reports a dead context, queries each context with staged copies in flight whether it has died, and ends
// the copies of dead contexts. The status alone proves nothing, because it may refer to another context.
inline void note_error(ferry_instance &instance, const error &failed) noexcept {
    if (means_dead_context(failed.status)) instance.staging.lose_dead();
}

// Same as note_error, and returns the error.
inline error noted(ferry_instance &instance, error failed) noexcept {
    if (failed) note_error(instance, failed);
    return failed;
}
inline status_code noted(ferry_instance &instance, status_code status) noexcept {
    return noted(instance, error{.status = status}).status;
}

} // namespace ferry
