#include "trace.h"

#include <cinttypes>
#include <cstdio>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../trace_events.h"
#include "names.h"
#include "own_file.h"
#include "say.h"
#include "settings.h"

namespace ferry_run {

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards all variables below
own_file file;
bool is_over = false; // at exit, or if nothing more can be written

void end_because(const char *form, const char *why) noexcept {
    static char told[sizeof file + 128];
    is_over = true;
    std::snprintf(told, sizeof told, form, file.name(), why);
    say(told);
}

void write_text(const char *text, int length) noexcept {
    if (const char *const why = file.write(text, static_cast<std::size_t>(length)))
        end_because("ferry-run: the trace in %s ends early: %s\n", why);
}

void open_file() noexcept {
    if (const char *const why = file.open(the_settings().trace))
        return end_because("ferry-run: cannot write the trace to %s: %s\n", why);
    char line[160];
    const char *const form = "[\n{\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": %d, "
                             "\"args\": {\"labels\": \"ferry-run\"}}";
    write_text(line, std::snprintf(line, sizeof line, form, getpid()));
}

// Writes each event immediately: the file of a killed process contains all events, and lacks only the last bracket,
// which the format does not need. A thread that was cancelled in write() would leave the lock locked.
void write_event(const char *text, int length) noexcept {
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&mutex);
    if (!file.is_open() && !is_over) open_file();
    if (!is_over) write_text(text, length);
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(before, nullptr);
}

__attribute__((destructor)) void end_trace() {
    if (!the_settings().trace) return;
    pthread_mutex_lock(&mutex);
    if (file.is_open() && !is_over) write_text("\n]\n", 3);
    is_over = true;
    pthread_mutex_unlock(&mutex);
}

} // namespace

void trace_call(const noted_call &call, std::uint64_t begin_ns) noexcept {
    using trace_events::microseconds;
    char line[512];
    // Hundredths of bytes per nanosecond. printf's %f would write a decimal comma in some locales.
    const double rate = call.time_ns ? 100 * static_cast<double>(call.bytes) / static_cast<double>(call.time_ns) : 0;
    const auto hundredths = static_cast<std::uint64_t>(rate + 0.5);
    write_event(line,
                std::snprintf(line, sizeof line,
                              ",\n{\"name\": \"%s: %s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %s, \"dur\": %s, "
                              "\"pid\": %d, \"tid\": %ld, \"args\": {\"function\": \"%s\", \"bytes\": %" PRIu64
                              ", \"GB/s\": %" PRIu64 ".%02u}}",
                              name_of(call.kind), name_of(call.result), is_served(call.result) ? "ferry" : "driver",
                              microseconds(begin_ns).text, microseconds(call.time_ns).text, getpid(),
                              syscall(SYS_gettid), symbol_of(call.function), call.bytes, hundredths / 100,
                              static_cast<unsigned>(hundredths % 100)));
}

void trace_stream(void *, const ferry_trace_event *event) noexcept {
    char line[512];
    write_event(line, trace_events::write_on_stream(line, sizeof line, *event, getpid()));
}

void leave_trace() noexcept {
    pthread_mutex_init(&mutex, nullptr); // another thread may have held it at the fork
    if (file.is_open()) file.close();
    is_over = false;
}

} // namespace ferry_run
