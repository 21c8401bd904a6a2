#include "settings.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "../variables.h"

namespace ferry_run {

namespace {

// Null in a program that runs as another user than its caller, because the variables come from the caller.
const char *value_of(const char *variable) noexcept { return secure_getenv(variable); }

bool is_set(const char *variable) noexcept {
    const char *const value = value_of(variable);
    return value && *value;
}

bool equals(const char *variable, const char *wanted) noexcept {
    const char *const value = value_of(variable);
    return value && std::strcmp(value, wanted) == 0;
}

settings read() noexcept {
    settings found;
    found.mode = equals(variables::mode, "off")      ? mode::off
                 : equals(variables::mode, "report") ? mode::report_only
                                                     : mode::serve;
    found.leaves_async = is_set(variables::async);
    found.takes_all = is_set(variables::all);
    found.times = !is_set(variables::no_times);
    found.flips_a_byte = is_set(variables::flip);
    found.is_quiet = is_set(variables::quiet);
    found.pins = !equals(variables::pinned, "driver");
    found.pins_privately = equals(variables::pinned, "private");
    // Copied, because the program may change its environment.
    if (is_set(variables::report)) found.report = strdup(value_of(variables::report));
    if (is_set(variables::trace)) found.trace = strdup(value_of(variables::trace));
    if (is_set(variables::loadavg)) found.loadavg = strdup(value_of(variables::loadavg));
    if (is_set(variables::process)) found.first_process = std::strtol(value_of(variables::process), nullptr, 10);
    return found;
}

// Before the program can change its environment for its children.
__attribute__((constructor)) void read_early() { the_settings(); }

} // namespace

std::atomic<bool> may_serve = true;

bool is_first_process() noexcept { return getpid() == the_settings().first_process; }

bool name_file(const char *plain, char *name, std::size_t size) noexcept {
    const int length = is_first_process() ? std::snprintf(name, size, "%s", plain)
                                          : std::snprintf(name, size, "%s.%d", plain, getpid());
    return length > 0 && static_cast<std::size_t>(length) < size;
}

const settings &the_settings() noexcept {
    static const settings read_once = read();
    return read_once;
}

} // namespace ferry_run
