#include "support/second_process.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

#if !defined(_WIN32)
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "support/emulator.h"

namespace ferry::test {

namespace {

constexpr const char role_argument[] = "--second-process";

const registered_role *roles = nullptr;

} // namespace

#if defined(_WIN32)

channel::~channel() = default;
void channel::send_bytes(const void *, std::size_t) {}
void channel::receive_bytes(void *, std::size_t) {}
void channel::send_descriptor(int) {}
int channel::receive_descriptor() { return -1; }
void channel::await_for_ever() {}
second_process::second_process(const char *) : channel_(-1) { throw std::runtime_error("second processes need Linux"); }
second_process::~second_process() = default;
int second_process::wait() { return -1; }
void second_process::kill() {}
void close_descriptor(int) {}

#else

namespace {

constexpr int limit_ms = 60'000; // for one read: longer than a step of a test, and shorter than the timeout of a test

[[noreturn]] void fail(const char *what) { throw std::system_error(errno, std::generic_category(), what); }

struct socket_pair {
    socket_pair() {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) fail("socketpair");
    }
    int ends[2];
};

} // namespace

channel::~channel() { close(socket_); }

void channel::send_bytes(const void *data, std::size_t size) {
    if (::send(socket_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) fail("sending to the other process");
}

void channel::wait_for_input() const {
    pollfd waited{.fd = socket_, .events = POLLIN, .revents = 0};
    if (poll(&waited, 1, limit_ms) != 1) throw std::runtime_error("the other process says nothing");
}

void channel::await_for_ever() {
    pollfd waited{.fd = socket_, .events = POLLIN, .revents = 0};
    while (poll(&waited, 1, -1) < 0 && errno == EINTR) {
    }
    await();
}

void channel::receive_bytes(void *data, std::size_t size) {
    for (std::size_t done = 0; done < size;) {
        wait_for_input();
        const ssize_t got = recv(socket_, static_cast<char *>(data) + done, size - done, 0);
        if (got <= 0) throw std::runtime_error("the other process has gone");
        done += static_cast<std::size_t>(got);
    }
}

void channel::send_descriptor(int descriptor) {
    char byte = 'd';
    iovec payload{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &payload, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr *const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(socket_, &message, MSG_NOSIGNAL) != 1) fail("sending a descriptor");
}

int channel::receive_descriptor() {
    wait_for_input();
    char byte = 0;
    iovec payload{&byte, 1};
    int descriptor = -1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptor)] = {};
    msghdr message{};
    message.msg_iov = &payload, message.msg_iovlen = 1;
    message.msg_control = control, message.msg_controllen = sizeof control;
    if (recvmsg(socket_, &message, MSG_CMSG_CLOEXEC) != 1) throw std::runtime_error("the other process has gone");
    const cmsghdr *const header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS) throw std::runtime_error("no descriptor came");
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

second_process::second_process(const char *role) : second_process(role, socket_pair().ends) {}

second_process::second_process(const char *role, const int *sockets) : channel_(sockets[0]) {
    const int theirs = sockets[1];
    // Spawned instead of forked: a process that has loaded a driver should not be forked.
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs, theirs); // clears FD_CLOEXEC, so that the child keeps it
    std::string socket = std::to_string(theirs);
    std::string name = role;
    std::string flag = role_argument;
    char program[] = "second-process";
    char *arguments[] = {program, flag.data(), name.data(), socket.data(), nullptr};
    // Under an emulator, the system cannot run the program itself.
    std::vector<std::string> emulator = emulator_command();
    std::vector<char *> command;
    if (!emulator.empty()) {
        char name_of_program[4096] = {};
        if (readlink("/proc/self/exe", name_of_program, sizeof name_of_program - 1) < 0) fail("finding the program");
        emulator.emplace_back(name_of_program);
        for (std::string &word : emulator)
            command.push_back(word.data());
        command.insert(command.end(), arguments + 1, std::end(arguments));
    }
    const int failed = emulator.empty() ? posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ)
                                        : posix_spawnp(&pid_, command[0], &actions, nullptr, command.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(theirs);
    if (failed) throw std::system_error(failed, std::generic_category(), "starting a second process");
}

second_process::~second_process() { kill(); }

int second_process::wait() {
    if (pid_ < 0) return -1;
    pollfd ended{.fd = channel_.socket_, .events = POLLRDHUP, .revents = 0};
    if (poll(&ended, 1, limit_ms) != 1) ::kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void second_process::kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
}

void close_descriptor(int descriptor) { close(descriptor); }

#endif

registered_role::registered_role(const char *name, int (*play)(channel &)) : name(name), play(play), next(roles) {
    roles = this;
}

bool play_second_process(int argc, char **argv, int &status) {
    if (argc != 4 || std::strcmp(argv[1], role_argument)) return false;
    status = 1;
    const registered_role *role = roles;
    while (role && std::strcmp(role->name, argv[2]))
        role = role->next;
    if (!role) {
        std::printf("no role is called %s\n", argv[2]);
        return true;
    }
    try {
        channel to_test(std::atoi(argv[3]));
        CUcontext context = nullptr;
        EXPECT_OK(raw().cuDevicePrimaryCtxRetain(&context, 0));
        EXPECT_OK(raw().cuCtxSetCurrent(context));
        status = role->play(to_test);
        EXPECT_OK(raw().cuCtxSetCurrent(nullptr));
        EXPECT_OK(raw().cuDevicePrimaryCtxRelease(0));
    } catch (const std::exception &problem) {
        std::printf("%s: %s\n", role->name, problem.what());
    }
    if (::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) status = 1;
    return true;
}

} // namespace ferry::test
