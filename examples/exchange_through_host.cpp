// For processes that cannot share device memory: both processes map and register the same pages. One process fills one
// half while the other process empties the other half, each at the speed of its link.
#include <ferry/ferry.hpp>

#include <cstdio>
#include <numeric>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

void check(std::int32_t status) { ferry::status(status).or_throw(); }

int main() try {
    constexpr std::uint64_t half = 4 << 20, chunks = 16, count = chunks * half / sizeof(int);
    int ends[2], ended = 0; // unrelated processes map pages of shm_open or of a shared memfd
    void *const pages = mmap(nullptr, 2 * half, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    const pid_t reader = fork(); // before the driver is initialised: a forked child has no driver
    const int other = ends[reader ? 0 : 1];
    close(ends[reader ? 1 : 0]); // so that each process detects the end of the other process
    const auto ferry = ferry::instance::open(ferry::any_driver()).or_throw();
    auto memory = ferry::device_memory<int>::create(ferry, 0, count).or_throw();
    std::vector<int> numbers(count), received(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    if (reader) ferry::copy(ferry, numbers, memory).or_throw();
    check(ferry_host_register(ferry, pages, 2 * half, 0, nullptr)); // until the process exits
    ferry::event mine[2];                                           // recorded when this process is done with a half
    CUevent_st *theirs[2];
    ferry_ipc_handle handles[2];
    for (int i = 0; i < 2; ++i) {
        mine[i] = ferry::event::create(ferry, 0, ferry::event_flag::interprocess | ferry::event_flag::disable_timing)
                      .or_throw();
        check(ferry_ipc_export_event(ferry, mine[i], &handles[i], nullptr));
    }
    if (write(other, handles, sizeof handles) != sizeof handles) return 1;
    if (recv(other, handles, sizeof handles, MSG_WAITALL) != sizeof handles) return 1;
    for (int i = 0; i < 2; ++i)
        check(ferry_ipc_import_event(ferry, &handles[i], &theirs[i], nullptr));
    for (std::uint64_t i = 0; i < chunks; ++i) {
        const std::uint64_t device = memory.address() + i * half,
                            host = reinterpret_cast<std::uintptr_t>(pages) + i % 2 * half;
        char recorded; // a wait uses the last record, so each record is announced
        if ((!reader || i >= 2) && read(other, &recorded, 1) != 1) return 1;
        check(ferry_stream_wait_event(ferry, nullptr, theirs[i % 2], nullptr));
        check(ferry_copy_bytes_async(ferry, reader ? host : device, reader ? device : host, half, nullptr, nullptr,
                                     nullptr, nullptr));
        mine[i % 2].record(nullptr).or_throw();
        if (write(other, "", 1) != 1) return 1;
    }
    ferry.synchronize(0).or_throw();
    for (CUevent_st *event : theirs)
        check(ferry_ipc_close_event(ferry, event, nullptr));
    if (reader) return waitpid(reader, &ended, 0) != reader || ended;
    ferry::copy(ferry, memory, received).or_throw();
    return received != numbers;
} catch (const ferry::error &error) {
    return std::fprintf(stderr, "%s\n", error.what());
}
