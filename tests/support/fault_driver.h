// Wraps any driver, software or real. Counts the calls of each entry point, makes chosen calls fail, and lists the
// objects that were created through it and not destroyed.
// It is a resolver, like a resolver that a host program may pass. Only one fault_driver can be in use at a time.
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

    // Makes `entry` return `result` without running, starting with its `nth` call (1 is the next call): once, or for
    // every later call if `sticky`. With CUDA_SUCCESS, the call does nothing and succeeds.
    void fail(const char *entry, CUresult result, int nth = 1, bool sticky = false);
    // Pretends that the driver lacks the entry point, or its signatures starting with this version.
    void hide(const char *entry, int from_version = 0);
    void heal();
    // While paused, the driver neither counts calls nor makes them fail, on any thread.
    void pause(bool is_paused);
    // The number of calls that were made to fail since the last reset_counts.
    int injected() const;

    // Objects that were created through this driver and not destroyed, marked if the destruction was made to fail.
    struct live_object {
        const char *kind;
        std::uint64_t handle; // the device, for a primary context
        bool destruction_failed;
        std::uint64_t size; // of device memory, pinned memory and registrations, in bytes
    };
    std::vector<live_object> live_objects() const;

    int calls(const char *entry) const;
    // The number of calls of all entry points whose names begin with `prefix`.
    int calls_beginning(const char *prefix) const;
    // The number of entry points that were looked up, found or not.
    int look_ups() const;
    void reset_counts();

    // The lowest stack address at which the calling thread has entered the driver; null if it has not.
    static const void *deepest_call();
};

} // namespace ferry::test
