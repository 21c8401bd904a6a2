// Writes ferry's trace as events of Chrome's trace format, which Perfetto and chrome://tracing open. Depends on libc
// only in its C parts.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdio>

#include <ferry/ferry.h>

#include "base/route_kind.h"

namespace trace_events {

// A time as text. printf's %f would write a decimal comma in some locales, which JSON does not allow.
struct microseconds {
    char text[32];

    explicit microseconds(std::uint64_t ns) noexcept {
        std::snprintf(text, sizeof text, "%" PRIu64 ".%03u", ns / 1000, static_cast<unsigned>(ns % 1000));
    }
};

inline const char *name_of_routes(std::uint32_t routes) noexcept {
    if (routes <= 1U << FERRY_ROUTE_NONE) return "nothing";
    for (int route = 1; route <= ferry::route_count; ++route)
        if (routes == 1U << route) return ferry::routes_by_number.all[route].name;
    return "several routes";
}

// Writes the beginning and the end of the work that a call has enqueued, each after a comma and a line break. `event`
// must have the phase FERRY_PHASE_DONE. Returns the length.
inline int write_on_stream(char *line, std::size_t size, const ferry_trace_event &event, int process) noexcept {
    const char *const name = name_of_routes(event.routes);
    // Two instances use the same event numbers, and two threads may start a call at the same time.
    return std::snprintf(
        line, size,
        ",\n{\"name\": \"%s\", \"cat\": \"stream\", \"ph\": \"b\", \"ts\": %s, \"pid\": %d, "
        "\"id\": \"%" PRIx64 "-%" PRIu64 "\", \"args\": {\"bytes\": %" PRIu64 ", \"stream\": \"%p\"}},\n"
        "{\"name\": \"%s\", \"cat\": \"stream\", \"ph\": \"e\", \"ts\": %s, \"pid\": %d, "
        "\"id\": \"%" PRIx64 "-%" PRIu64 "\"}",
        name, microseconds(event.begin_ns).text, process, event.begin_ns, event.id, event.bytes,
        static_cast<void *>(event.stream), name, microseconds(event.done_ns).text, process, event.begin_ns, event.id);
}

} // namespace trace_events
