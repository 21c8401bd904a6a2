// --trace: what ferry's calls did when, as a file for Perfetto.
#pragma once

#include <string>

#include "ferry/ferry.h"

namespace bench {

// Begins the file. Throws if it cannot be written. Every instance that is opened from now on is traced.
void begin_trace(const std::string &path);
bool is_tracing();

// Sets the trace of an instance that is to be opened, if there is one.
void add_trace(ferry_options &options);

// A case on the main thread, from begin_ns until now, and a row that has just been measured.
void trace_case(const char *name, double begin_ns);
void trace_row(const std::string &text);

// After all instances are closed. Throws if the file could not be written.
void end_trace();

} // namespace bench
