#if defined(__linux__)
#include "system/handles.h"

#include <climits>
#include <initializer_list>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ferry {

void *default_handle_attributes() noexcept { return nullptr; }

bool is_open_handle(std::int64_t handle) noexcept {
    return handle >= 0 && handle <= INT_MAX && fcntl(static_cast<int>(handle), F_GETFD) != -1;
}

int duplicate_descriptor(int descriptor) noexcept {
    // The system gives out the lowest free number, unless a higher one is asked for.
    for (const int lowest : {1'000'000, 65'000, 1000, 0}) {
        const int made = fcntl(descriptor, F_DUPFD_CLOEXEC, lowest);
        if (made >= 0) return made;
    }
    return -1;
}

void close_descriptor(int descriptor) noexcept { close(descriptor); }

void close_duplicate(int duplicate, int descriptor) noexcept {
    struct stat one {
    }, other{};
    if (fstat(duplicate, &one) != 0 || fstat(descriptor, &other) != 0) return;
    if (one.st_dev == other.st_dev && one.st_ino == other.st_ino && one.st_rdev == other.st_rdev) close(duplicate);
}

} // namespace ferry
#endif
