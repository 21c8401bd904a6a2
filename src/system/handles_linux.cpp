#if defined(__linux__)
#include "system/handles.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <initializer_list>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry {

void *default_handle_attributes() noexcept { return nullptr; }

bool is_open_handle(std::int64_t handle) noexcept {
    return handle >= 0 && handle <= INT_MAX && fcntl(static_cast<int>(handle), F_GETFD) != -1;
}

int duplicate_descriptor(int descriptor) noexcept {
    // The system assigns the lowest free number unless the caller requests a higher minimum.
    for (const int lowest : {1000, 0}) {
        const int made = fcntl(descriptor, F_DUPFD_CLOEXEC, lowest);
        if (made >= 0) return made;
    }
    return -1;
}

void close_descriptor(int descriptor) noexcept { close(descriptor); }

int open_again(int descriptor, int flags) noexcept {
    char path[32];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    int opened;
    do
        opened = open(path, flags | O_CLOEXEC | O_NOCTTY);
    while (opened < 0 && errno == EINTR);
    return opened;
}

// fstat cannot distinguish descriptors of the same device node. If the system cannot report whether two descriptors
// share an open file description, a descriptor that is not of a regular file stays open.
void close_duplicate(int duplicate, int descriptor) noexcept {
    constexpr int duplicate_query = 1024 + 3; // F_DUPFD_QUERY, Linux 6.10
    constexpr int of_file = 0;                // KCMP_FILE
    int answer = fcntl(duplicate, duplicate_query, descriptor);
    if (answer < 0 && errno == EBADF) return;
    if (answer < 0) {
        const long compared = syscall(SYS_kcmp, getpid(), getpid(), of_file, duplicate, descriptor);
        if (compared >= 0) answer = compared == 0;
    }
    if (answer < 0) {
        struct stat one {
        }, other{};
        answer = fstat(duplicate, &one) == 0 && fstat(descriptor, &other) == 0 && S_ISREG(one.st_mode) &&
                 one.st_dev == other.st_dev && one.st_ino == other.st_ino;
    }
    if (answer == 1) close(duplicate);
}

kept_descriptor::kept_descriptor(int descriptor) noexcept : number_(descriptor) {
    struct stat found {};
    if (fstat(descriptor, &found) != 0) number_ = -1;
    device_ = found.st_dev;
    inode_ = found.st_ino;
}

kept_descriptor::~kept_descriptor() {
    if (get() >= 0) close(number_);
}

int kept_descriptor::get() const noexcept {
    const int kept = errno;
    struct stat found {};
    const bool is_same =
        number_ >= 0 && fstat(number_, &found) == 0 && found.st_dev == device_ && found.st_ino == inode_;
    errno = kept;
    return is_same ? number_ : -1;
}

} // namespace ferry
#endif
