// Shares device memory with another process: a handle of 256 bytes identifies it, and an event orders the work of the
// processes.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct letter {
    ferry_ipc_handle memory, filled;
};

int main() try {
    std::vector<int> sent(1 << 20, 42), received(sent.size());
    int ends[2], ended = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    const pid_t importer = fork(); // before the driver is initialised: a forked child has no driver
    const int other = ends[importer ? 0 : 1];
    close(ends[importer ? 1 : 0]); // so that each process detects the end of the other process
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    const auto stream = ferry::stream::create(ferry, 0).or_throw();
    if (importer) {
        constexpr ferry::event_flags shared = ferry::event_flag::interprocess | ferry::event_flag::disable_timing;
        const auto filled = ferry::event::create(ferry, 0, shared).or_throw();
        auto memory = ferry::device_memory<int>::create(ferry, 0, sent.size()).or_throw();
        const letter letter = {ferry::export_memory(ferry, memory).or_throw(),
                               ferry::export_event(ferry, filled).or_throw()};
        ferry::copy_async(ferry, sent, memory, stream).or_throw();
        filled.record(stream).or_throw(); // before the letter is sent, because the importer waits for the last record
        if (write(other, &letter, sizeof letter) != sizeof letter) return 1;
        if (waitpid(importer, &ended, 0) != importer || ended) return 1; // the importer closes first
        return std::printf("another process has read %zu numbers\n", sent.size()) < 0;
    }
    letter letter;
    if (recv(other, &letter, sizeof letter, MSG_WAITALL) != sizeof letter) return 1;
    const auto memory = ferry::imported_memory<int>::open(ferry, letter.memory, stream).or_throw();
    const auto filled = ferry::imported_event::open(ferry, letter.filled).or_throw();
    stream.wait(filled).or_throw();
    ferry::copy_async(ferry, memory, received, stream).or_throw();
    stream.synchronize().or_throw();
    return received != sent;
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
