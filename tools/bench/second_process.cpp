#include "second_process.h"

#include <string>
#include <utility>
#include <vector>

#if !defined(_WIN32)
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace bench {

#if defined(_WIN32)

channel::channel(int socket) : socket_(socket) {}
channel::~channel() = default;
void channel::send_bytes(const void *, std::size_t) {}
void channel::receive_bytes(void *, std::size_t) {}
second_process::second_process(int, int process) : channel_(-1), process_(process) {}
std::unique_ptr<second_process> second_process::start(const environment &, bool, int) { return nullptr; }
second_process::~second_process() = default;

#else

namespace {

// For one answer: opening the driver takes a second, and a measurement takes little longer.
constexpr timeval longest_silence = {.tv_sec = 60, .tv_usec = 0};

constexpr int not_executed = 127; // posix_spawn's exit status

struct socket_pair {
    socket_pair() {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) fail("cannot create a pair of sockets");
    }
    int ends[2];
};

void let_inherit(int descriptor) { fcntl(descriptor, F_SETFD, fcntl(descriptor, F_GETFD) & ~FD_CLOEXEC); }

} // namespace

channel::channel(int socket) : socket_(socket) {
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest_silence, sizeof longest_silence);
}

channel::~channel() { close(socket_); }

void channel::send_bytes(const void *data, std::size_t size) {
    if (::send(socket_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) fail("the second process has ended");
}

void channel::receive_bytes(void *data, std::size_t size) {
    if (::recv(socket_, data, size, MSG_WAITALL) != static_cast<ssize_t>(size))
        fail("the second process has ended or hangs");
}

second_process::second_process(int socket, int process) : channel_(socket), process_(process) {}

std::unique_ptr<second_process> second_process::start(const environment &environment, bool is_quick, int descriptor) {
    const auto [here, there] = socket_pair().ends;
    // This is the only thread, so no other process can be started at this time and inherit the descriptors.
    let_inherit(there);
    if (descriptor >= 0) let_inherit(descriptor);
    std::string arguments[] = {"ferry-bench",
                               importer_option,
                               std::to_string(there),
                               "--device",
                               std::to_string(environment.device),
                               "--driver",
                               environment.report.driver == FERRY_DRIVER_SOFTWARE ? "software" : "cuda",
                               "--quick"};
    std::vector<char *> pointers;
    for (std::string &argument : arguments)
        pointers.push_back(argument.data());
    if (!is_quick) pointers.pop_back();
    pointers.push_back(nullptr);
    // Spawned, because a process that has loaded the driver must not be forked.
    pid_t process;
    if (posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ))
        fail("cannot start a second process");
    close(there);
    std::unique_ptr<second_process> started(new second_process(here, process));
    return started->runs() ? std::move(started) : nullptr;
}

// Waits for the first byte, and returns whether the system could run this program. Under an emulator it cannot, and
// QEMU does not report that to posix_spawn.
bool second_process::runs() {
    char first;
    if (::recv(channel_.socket_, &first, sizeof first, 0) != 0) return true;
    siginfo_t end = {};
    waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT);
    return end.si_code != CLD_EXITED || end.si_status != not_executed;
}

second_process::~second_process() {
    kill(process_, SIGKILL); // all answers have been received, or none are needed
    waitpid(process_, nullptr, 0);
}

#endif

} // namespace bench
