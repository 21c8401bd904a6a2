// The environment variables in which ferry-run passes its options to libferry-run.so.
#pragma once

namespace ferry_run::variables {

inline constexpr const char *mode = "FERRY_RUN";        // "serve", "report" or "off"
inline constexpr const char *async = "FERRY_RUN_ASYNC"; // the others: set and not empty
inline constexpr const char *all = "FERRY_RUN_ALL";
inline constexpr const char *no_times = "FERRY_RUN_NO_TIMES";
inline constexpr const char *quiet = "FERRY_RUN_QUIET";
inline constexpr const char *pinned = "FERRY_RUN_PINNED";   // "shared", "private" or "driver"
inline constexpr const char *report = "FERRY_RUN_REPORT";   // a file's name
inline constexpr const char *trace = "FERRY_RUN_TRACE";     // a file's name
inline constexpr const char *process = "FERRY_RUN_PROCESS"; // the process that ferry-run became
inline constexpr const char *flip = "FERRY_RUN_FLIP";       // for tests: damages each copy
inline constexpr const char *loadavg = "FERRY_RUN_LOADAVG"; // for tests: a file that replaces /proc/loadavg

} // namespace ferry_run::variables
