// Device memory for another process: 256 bytes name it, and an event orders the work of the two.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <vector>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct letter {
    ferry_ipc_handle memory, filled;
};

void check(std::int32_t status) { ferry::status(status).or_throw(); }

int main() try {
    std::vector<int> sent(1 << 20, 42), received(sent.size());
    int ends[2], ended = 1;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    const pid_t importer = fork(); // before anything of the driver's: a fork takes no driver along
    const int other = ends[importer ? 0 : 1];
    close(ends[importer ? 1 : 0]); // so that each hears when the other has gone
    const auto ferry = ferry::instance::open().or_throw();
    const auto stream = ferry::stream::create(ferry, 0).or_throw();
    letter letter;
    if (importer) {
        constexpr std::uint32_t shared = FERRY_EVENT_INTERPROCESS | FERRY_EVENT_DISABLE_TIMING;
        const auto filled = ferry::event::create(ferry, 0, shared).or_throw();
        auto memory = ferry::device_memory<int>::create(ferry, 0, sent.size()).or_throw();
        check(ferry_ipc_export_memory(ferry, memory.address(), 0, &letter.memory, nullptr));
        check(ferry_ipc_export_event(ferry, filled, &letter.filled, nullptr));
        ferry::copy_async(ferry, sent, memory, stream).or_throw();
        filled.record(stream).or_throw(); // before the other is told: it waits for the last record
        if (write(other, &letter, sizeof letter) != sizeof letter) return 1;
        if (waitpid(importer, &ended, 0) != importer || ended) return 1; // it closes first, then the memory goes
        return std::printf("another process has read %zu numbers\n", sent.size()) < 0;
    }
    CUevent_st *filled = nullptr;
    std::uint64_t address = 0;
    if (recv(other, &letter, sizeof letter, MSG_WAITALL) != sizeof letter) return 1;
    check(ferry_ipc_import_memory(ferry, &letter.memory, &address, nullptr));
    check(ferry_ipc_import_event(ferry, &letter.filled, &filled, nullptr));
    stream.wait(filled).or_throw();
    ferry::copy_async(ferry, ferry::device_view<int>(0, address, sent.size()), received, stream).or_throw();
    stream.synchronize().or_throw();
    check(ferry_ipc_close_event(ferry, filled));
    check(ferry_ipc_close_memory(ferry, address, nullptr));
    return received != sent;
} catch (const ferry::error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
