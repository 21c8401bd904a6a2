#if defined(__linux__)
#include "system/process.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

namespace ferry {

namespace {

// Returns the number of bytes read, or 0 if the file cannot be read.
std::size_t read_file(const char *path, char *text, std::size_t size) noexcept {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    const ssize_t length = read(file, text, size);
    close(file);
    return length > 0 ? static_cast<std::size_t>(length) : 0;
}

struct process_state {
    char letter = 0; // Z and X: the process has ended, but its number is still in use
    std::uint64_t start_time = 0;
};

// proc(5): field 3 of stat is the state, field 22 the start time. Field 2, in parentheses, may contain any character.
// Reads the stat file of the first thread, because QEMU emulates the file of its own process with a different start
// time.
bool read_state(pid_t process, process_state &state) noexcept {
    char path[60], text[1024];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", static_cast<int>(process), static_cast<int>(process));
    const std::size_t length = read_file(path, text, sizeof text - 1);
    text[length] = '\0';
    const char *field = std::strrchr(text, ')');
    if (!field || field[1] != ' ') return false;
    state.letter = field[2];
    field += 1;
    for (int number = 3; number < 22; ++number) {
        field = std::strchr(field + 1, ' ');
        if (!field) return false;
    }
    state.start_time = std::strtoull(field, nullptr, 10);
    return true;
}

} // namespace

process_identity own_process() noexcept {
    process_identity own = {};
    process_state state;
    char boot[64];
    const std::size_t length = read_file("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (!length || !read_state(getpid(), state)) return own;
    for (std::uint64_t half = 0; half < 2; ++half) {
        const std::uint64_t hash = hash_of(boot, length, half);
        std::memcpy(own.machine + half * sizeof hash, &hash, sizeof hash);
    }
    own.number = static_cast<std::uint64_t>(getpid());
    own.start_time = state.start_time;
    struct stat space = {};
    if (stat("/proc/self/ns/pid", &space) == 0) own.number_space = space.st_ino;
    return own;
}

bool is_gone(const process_identity &other, const process_identity &own) noexcept {
    if (!own.number_space || other.number_space != own.number_space) return false;
    if (other.number == 0 || other.number > INT_MAX) return true;
    if (kill(static_cast<pid_t>(other.number), 0) != 0 && errno == ESRCH) return true;
    process_state state;
    if (!read_state(static_cast<pid_t>(other.number), state)) return false; // some systems hide other users' processes
    return state.letter == 'Z' || state.letter == 'X' || state.start_time != other.start_time;
}

bool fill_with_random_bytes(void *bytes, std::size_t size) noexcept {
    return getrandom(bytes, size, 0) == static_cast<ssize_t>(size);
}

} // namespace ferry
#endif
