// Wraps any driver, software or real: counts the calls of each entry point and makes chosen ones fail.
// It is a resolver, as a host program may pass one; one of them can be in use at a time.
#pragma once

#include <string>

#include "driver/table.h"
#include "ferry/ferry.h"

namespace ferry::test {

class fault_driver {
public:
    explicit fault_driver(resolver inner);
    ~fault_driver();
    fault_driver(const fault_driver &) = delete;
    fault_driver &operator=(const fault_driver &) = delete;

    // Options that open the wrapped driver.
    ferry_options options() const;

    // From its `nth` call on (counted from here, 1 is the next), `entry` returns `result` without being run: once, or
    // sticky, for ever. CUDA_SUCCESS makes a call that does nothing.
    void fail(const char *entry, CUresult result, int nth = 1, bool sticky = false);
    // As if the driver lacked the entry point, or its signatures from this version on.
    void hide(const char *entry, int from_version = 0);
    void heal();

    int calls(const char *entry) const;
    // Of all entry points whose names begin so.
    int calls_beginning(const char *prefix) const;
    void reset_counts();
};

} // namespace ferry::test
