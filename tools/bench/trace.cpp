#include "trace.h"

#include <atomic>
#include <fstream>
#include <mutex>
#include <optional>

#include <nlohmann/json.hpp>

#include "../trace_events.h"
#include "environment.h"
#include "measure.h"

namespace bench {

namespace {

constexpr int process = 1; // the format requires a number

struct trace_file {
    std::string path;
    std::ofstream out;
    std::mutex mutex; // guards `out`
};
std::optional<trace_file> traced;

// Small numbers in the order of the first call, so that the main thread is the first track.
int own_thread() {
    static std::atomic<int> threads = 0;
    thread_local const int number = ++threads;
    return number;
}

void write(const char *text, int length) {
    const std::lock_guard lock(traced->mutex);
    traced->out.write(text, length);
}

void write(const nlohmann::ordered_json &event) {
    const std::string text = ",\n" + event.dump();
    write(text.data(), static_cast<int>(text.size()));
}

const char *name_of_kind(std::int32_t kind) {
    constexpr const char *names[] = {"call", "copy", "batch", "prepared batch", "fill"};
    return names[kind > 0 && kind <= FERRY_TRACE_FILL ? kind : 0];
}

void write_call(void *, const ferry_trace_event *event) {
    char line[512];
    if (event->phase == FERRY_PHASE_DONE)
        return write(line, trace_events::write_on_stream(line, sizeof line, *event, process));
    write(line,
          std::snprintf(line, sizeof line,
                        ",\n{\"name\": \"%s: %s\", \"cat\": \"ferry\", \"ph\": \"X\", \"ts\": %s, \"dur\": "
                        "%s, \"pid\": %d, \"tid\": %d, \"args\": {\"bytes\": %" PRIu64 ", \"count\": %" PRIu64 "}}",
                        name_of_kind(event->kind), trace_events::name_of_routes(event->routes),
                        trace_events::microseconds(event->begin_ns).text,
                        trace_events::microseconds(event->returned_ns - event->begin_ns).text, process, own_thread(),
                        event->bytes, event->count));
}

} // namespace

void begin_trace(const std::string &path) {
    traced.emplace();
    traced->path = path;
    traced->out.open(path, std::ios::binary | std::ios::trunc);
    traced->out << "[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": " << process
                << ", \"args\": {\"name\": \"ferry-bench\"}}";
    if (!traced->out.flush()) fail("cannot write the trace to " + path);
    own_thread();
}

bool is_tracing() { return traced.has_value(); }

void add_trace(ferry_options &options) {
    if (!traced) return;
    options.trace = write_call;
    options.trace_phases = FERRY_PHASE_RETURN | FERRY_PHASE_DONE;
}

void trace_case(const char *name, double begin_ns) {
    if (!traced) return;
    write({{"name", name},
           {"cat", "case"},
           {"ph", "X"},
           {"ts", begin_ns / 1e3},
           {"dur", (now_ns() - begin_ns) / 1e3},
           {"pid", process},
           {"tid", own_thread()}});
}

void trace_row(const std::string &text) {
    if (!traced) return;
    write({{"name", text},
           {"cat", "row"},
           {"ph", "i"},
           {"s", "t"},
           {"ts", now_ns() / 1e3},
           {"pid", process},
           {"tid", own_thread()}});
}

void end_trace() {
    if (!traced) return;
    traced->out << "\n]\n";
    if (!traced->out.flush()) fail("cannot write the trace to " + traced->path);
    traced.reset();
}

} // namespace bench
