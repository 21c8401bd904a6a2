// --trace: the calls as a file that Perfetto and chrome://tracing open.
#pragma once

#include <cstdint>

#include "record.h"

struct ferry_trace_event;

namespace ferry_run {

// A call on its thread, from `begin_ns` on.
void trace_call(const noted_call &call, std::uint64_t begin_ns) noexcept;

// ferry_options.trace: an asynchronous copy of ferry's on its stream, once the stream has passed.
void trace_stream(void *unused, const ferry_trace_event *event) noexcept;

void leave_trace() noexcept; // in the child of a fork, which writes a file of its own

} // namespace ferry_run
