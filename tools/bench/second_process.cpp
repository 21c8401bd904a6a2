#include "second_process.h"

#include <string>
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

bool second_process::is_possible() { return false; }
channel::channel(int socket) : socket_(socket) {}
channel::~channel() = default;
void channel::send_bytes(const void *, std::size_t) {}
void channel::receive_bytes(void *, std::size_t) {}
second_process::second_process(const environment &, bool, int) : channel_(-1) {}
second_process::~second_process() = default;

#else

namespace {

// For one answer: opening the driver takes a second, and a measurement not much longer.
constexpr timeval longest_silence = {.tv_sec = 60, .tv_usec = 0};

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

bool second_process::is_possible() { return true; }

second_process::second_process(const environment &environment, bool is_quick, int descriptor)
    : second_process(environment, is_quick, descriptor, socket_pair().ends) {}

second_process::second_process(const environment &environment, bool is_quick, int descriptor, const int *sockets)
    : channel_(sockets[0]) {
    // This is the only thread, so no other process can be started now and inherit the descriptors.
    let_inherit(sockets[1]);
    if (descriptor >= 0) let_inherit(descriptor);
    std::string arguments[] = {"ferry-bench",
                               importer_option,
                               std::to_string(sockets[1]),
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
    const int failed = posix_spawn(&process_, "/proc/self/exe", nullptr, nullptr, pointers.data(), environ);
    close(sockets[1]);
    if (failed) {
        process_ = -1;
        fail("cannot start a second process");
    }
}

second_process::~second_process() {
    if (process_ < 0) return;
    kill(process_, SIGKILL); // all answers have been received, or none are wanted
    waitpid(process_, nullptr, 0);
}

#endif

} // namespace bench
