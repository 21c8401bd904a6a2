#include "trace.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../trace_events.h"
#include "names.h"
#include "say.h"
#include "settings.h"

namespace ferry_run {

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // guards the rest
int file = -1;
bool is_over = false; // at exit, or nothing can be written

void write_whole(const char *text, int length) noexcept {
    if (write(file, text, static_cast<std::size_t>(length)) != length) is_over = true;
}

void open_file() noexcept {
    char name[4096], line[160];
    name_file(the_settings().trace, name, sizeof name);
    file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file >= 0) {
        const char *const form = "[\n{\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": %d, "
                                 "\"args\": {\"labels\": \"ferry-run\"}}";
        return write_whole(line, std::snprintf(line, sizeof line, form, getpid()));
    }
    is_over = true;
    char told[sizeof name + 64];
    std::snprintf(told, sizeof told, "ferry-run: cannot write the trace to %s\n", name);
    say(told);
}

// Writes each event at once: a process that is killed leaves all of them, and only lacks the last bracket, which the
// format does not need. A thread that was cancelled in write() would leave the lock behind.
void write_event(const char *text, int length) noexcept {
    int before = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&mutex);
    if (file < 0 && !is_over) open_file();
    if (!is_over) write_whole(text, length);
    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(before, nullptr);
}

__attribute__((destructor)) void end_trace() {
    pthread_mutex_lock(&mutex);
    if (file >= 0 && !is_over) write_whole("\n]\n", 3);
    is_over = true;
    pthread_mutex_unlock(&mutex);
}

} // namespace

void trace_call(const noted_call &call, std::uint64_t begin_ns) noexcept {
    char line[512];
    const double rate = call.time_ns ? static_cast<double>(call.bytes) / static_cast<double>(call.time_ns) : 0;
    write_event(line,
                std::snprintf(line, sizeof line,
                              ",\n{\"name\": \"%s: %s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.3f, \"dur\": %.3f, "
                              "\"pid\": %d, \"tid\": %ld, \"args\": {\"function\": \"%s\", \"bytes\": %" PRIu64
                              ", \"GB/s\": %.2f}}",
                              name_of(call.kind), name_of(call.result), is_served(call.result) ? "ferry" : "driver",
                              trace_events::microseconds(begin_ns), trace_events::microseconds(call.time_ns), getpid(),
                              syscall(SYS_gettid), symbol_of(call.function), call.bytes, rate));
}

void trace_stream(void *, const ferry_trace_event *event) noexcept {
    char line[512];
    write_event(line, trace_events::write_on_stream(line, sizeof line, *event, getpid()));
}

void leave_trace() noexcept {
    pthread_mutex_init(&mutex, nullptr); // another thread may have held it at the fork
    if (file >= 0) close(file);
    file = -1;
}

} // namespace ferry_run
