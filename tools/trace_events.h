// ferry's trace as events of Chrome's trace format, which Perfetto and chrome://tracing open. Needs libc alone.
#pragma once

#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <iterator>

#include <ferry/ferry.h>

namespace trace_events {

// A time as text. printf's %f would write a decimal comma in some locales, and JSON has none.
struct microseconds {
    char text[32];

    explicit microseconds(std::uint64_t ns) noexcept {
        std::snprintf(text, sizeof text, "%" PRIu64 ".%03u", ns / 1000, static_cast<unsigned>(ns % 1000));
    }
};

inline const char *name_of_routes(std::uint32_t routes) noexcept {
    constexpr const char *names[] = {"nothing", "driver", "kernel", "staged", "buffered", "relayed", "multilink"};
    for (std::size_t route = 0; route < std::size(names); ++route)
        if (routes == 1U << route) return names[route];
    return routes ? "several routes" : names[0];
}

// Writes the beginning and the end of what a call enqueued, each behind a comma and a line break. `event` is of
// FERRY_PHASE_DONE. Returns the length.
inline int write_on_stream(char *line, std::size_t size, const ferry_trace_event &event, int process) noexcept {
    const char *const name = name_of_routes(event.routes);
    // Two instances number their events alike, and two threads may begin a call at once.
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
