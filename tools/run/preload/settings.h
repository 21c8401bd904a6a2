// ferry-run's options for this library, passed in environment variables (../variables.h) and read once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ferry_run {

enum class mode { off, report_only, serve };

struct settings {
    ferry_run::mode mode = mode::serve;
    bool leaves_async = false; // --async: a call need not complete a pageable destination before it returns
    bool takes_all = false;    // --all: also serves copies that the driver performs as fast
    bool times = true;         // measures each call
    bool flips_a_byte = false; // damages each copy, to show that a test notices
    bool is_quiet = false;     // no summary
    bool pins = true;          // serves pinned allocations
    bool pins_privately = false;
    const char *report = nullptr; // the file of the JSON report
    const char *trace = nullptr;  // the file of the trace
    const char *loadavg = "/proc/loadavg";
    long first_process = 0; // the process that ferry-run became: its files have the given names without a number
};

const settings &the_settings() noexcept;

// Whether ferry-run became this process.
bool is_first_process() noexcept;
// Composes the name of this process's file: the first process uses the given name, and others append their number.
// Returns whether the name fits.
bool name_file(const char *plain, char *name, std::size_t size) noexcept;

// False in a forked child whose parent has used the driver, because the child has no driver.
extern std::atomic<bool> may_serve;

inline bool is_on() noexcept { return the_settings().mode != mode::off && may_serve.load(std::memory_order_relaxed); }

} // namespace ferry_run
