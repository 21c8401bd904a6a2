#include "interrupt.h"

#include <csignal>
#include <cstddef>
#if defined(_WIN32)
#include <io.h>
#else
#include <unistd.h>
#endif

namespace bench {

namespace {

volatile std::sig_atomic_t has_interrupt = 0;

constexpr char first_interrupt_text[] = "\nferry-bench: stops before the next row, and keeps the rows that it has "
                                        "measured. Press Ctrl-C again to end now.\n";

// Calls only functions that POSIX allows in a signal handler.
void note_interrupt(int number) {
    has_interrupt = 1;
    std::signal(number, SIG_DFL);
#if defined(_WIN32)
    _write(2, first_interrupt_text, sizeof first_interrupt_text - 1);
#else
    [[maybe_unused]] const auto written = write(STDERR_FILENO, first_interrupt_text, sizeof first_interrupt_text - 1);
#endif
}

} // namespace

void catch_interrupts() { std::signal(SIGINT, note_interrupt); }

bool is_interrupted() { return has_interrupt != 0; }

void stop_if_interrupted() {
    if (is_interrupted()) throw interrupted{};
}

} // namespace bench
