// Wraps any driver, software or real: counts the calls of each entry point, makes chosen ones fail, and keeps a list of
// the objects that were created through it and not destroyed.
// It is a resolver, as a host program may pass one; one of them can be in use at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
    // While paused, on all threads: calls are neither counted nor made to fail.
    void pause(bool is_paused);
    // Calls that were made to fail since the last reset_counts.
    int injected() const;

    // Created through this driver and not destroyed. An object whose destruction was made to fail is marked.
    struct live_object {
        const char *kind;
        std::uint64_t handle; // of a primary context: the device
        bool destruction_failed;
    };
    std::vector<live_object> live_objects() const;

    int calls(const char *entry) const;
    // Of all entry points whose names begin so.
    int calls_beginning(const char *prefix) const;
    void reset_counts();
};

} // namespace ferry::test
