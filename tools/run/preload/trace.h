// --trace: writes the calls to a file that Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>

#include "record.h"

struct ferry_trace_event;

namespace ferry_run {

// Traces a call on its thread, starting at `begin_ns`.
void trace_call(const noted_call &call, std::uint64_t begin_ns) noexcept;

// Callback for ferry_options.trace: an asynchronous copy by ferry on its stream, after it has completed.
void trace_stream(void *unused, const ferry_trace_event *event) noexcept;

void leave_trace() noexcept; // in a forked child, which writes its own file

} // namespace ferry_run
