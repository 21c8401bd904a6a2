// --trace: writes the times of ferry's calls to a file for Perfetto.
#pragma once

#include <string>

#include "ferry/ferry.h"

namespace bench {

// Begins the file. Throws if it cannot be written. Every instance that is opened afterwards is traced.
void begin_trace(const std::string &path);
bool is_tracing();

// Sets the trace of an instance that is about to be opened, if tracing is on.
void add_trace(ferry_options &options);

// Traces a case on the main thread, from begin_ns until now, and a row that has just been measured.
void trace_case(const char *name, double begin_ns);
void trace_row(const std::string &text);

// Must be called after all instances have been closed. Throws if the file could not be written.
void end_trace();

} // namespace bench
