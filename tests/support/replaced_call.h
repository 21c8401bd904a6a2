// An instance on the driver under test in which a function of the test replaces a driver function.
#pragma once

#include <cstring>

#include "support/driver_under_test.h"

namespace ferry::test {

// Must outlive the instances that are opened with its options.
struct replaced_call {
    const char *name;
    void *function;

    ferry_options options() {
        ferry_options options = options_under_test();
        options.driver = FERRY_DRIVER_CUDA;
        options.get_proc_user = this;
        options.get_proc = [](void *self, const char *name, int version) -> void * {
            const auto &mine = *static_cast<const replaced_call *>(self);
            const resolver real = raw_entry_points();
            return std::strcmp(name, mine.name) ? real.get_proc(real.user, name, version) : mine.function;
        };
        return options;
    }
};

} // namespace ferry::test
