// How one call is made: the checked form of ferry_copy_options.
#pragma once

#include "plan/plan.h"

namespace ferry {

struct call_options {
    copy_preferences preferences;
    std::uint64_t tag = 0;       // for traces and tickets
    bool checks_overlap = false; // between the copies of a batch
    bool is_updatable = false;   // for prepared pieces
};

} // namespace ferry
