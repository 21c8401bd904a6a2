// What a failed call may say about staged copies in flight.
#pragma once

#include "submit/instance.h"

namespace ferry {

// If the status is one of a dead context, asks each context with staged copies in flight whether it has died, and ends the
// copies of those that have. The status alone proves nothing, as it may be about another context.
inline void note_error(ferry_instance &instance, const error &failed) noexcept {
    if (tells_of_death(failed.status)) instance.staging.lose_dead();
}

// The same, and returns the status.
inline std::int32_t noted(ferry_instance &instance, std::int32_t status) noexcept {
    if (status) note_error(instance, {.status = status});
    return status;
}

} // namespace ferry
