// Finds the software driver, which is a library of its own, and starts it. A copy that is linked into the same library
// or program as ferry is used before any other.
#pragma once

#include "base/host.h"
#include "base/status.h"
#include "driver/table.h"
#include "ferry/ferry_software.h"

namespace ferry {

// Sets `is_software`. Fails for a software driver whose build differs from the build of this library.
error identify_driver(const resolver &driver, const log_sink &log, bool &is_software) noexcept;

class software_driver {
public:
    error open(const ferry_software_options *options, const log_sink &log) noexcept;
    void close() noexcept; // does nothing unless open
    resolver entry_points() const noexcept { return {functions_.get_proc}; }

private:
    struct functions {
        decltype(&ferry_software_open) open = nullptr;
        decltype(&ferry_software_close) close = nullptr;
        decltype(&ferry_software_get_proc) get_proc = nullptr;
    };

    static functions linked() noexcept; // null where no copy is linked in
    bool load() noexcept;
    void unload() noexcept;

    functions functions_;
    void *library_ = nullptr; // null: linked in
};

} // namespace ferry
