#include "own_file.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "settings.h"

namespace ferry_run {

void file_identity::remember(int descriptor) noexcept {
    struct stat found = {};
    inode_ = fstat(descriptor, &found) == 0 ? found.st_ino : 0;
    device_ = found.st_dev;
}
bool file_identity::is_file_of(int descriptor) const noexcept {
    struct stat now = {};
    return inode_ && fstat(descriptor, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
}

int write_whole(int descriptor, const char *text, std::size_t size) noexcept {
    const int errno_before = errno;
    sigset_t ours, before, pending;
    sigemptyset(&ours);
    sigaddset(&ours, SIGPIPE);
    sigaddset(&ours, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    sigpending(&pending);
    int error = 0;
    while (size && !error) {
        const ssize_t written = ::write(descriptor, text, size);
        if (written > 0) text += written, size -= static_cast<std::size_t>(written);
        if (written <= 0 && errno != EINTR) error = written < 0 ? errno : EIO;
    }
    // The signal that this write raises, unless the program already had it pending.
    const int sent = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
    constexpr timespec at_once = {};
    if (sent && sigismember(&pending, sent) == 0) {
        sigemptyset(&ours);
        sigaddset(&ours, sent);
        sigtimedwait(&ours, nullptr, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = errno_before;
    return error;
}

const char *own_file::open(const char *plain_name) noexcept {
    const bool is_exact = is_first_process();
    if (!name_file(plain_name, name_, sizeof name_)) return std::strerror(ENAMETOOLONG);
    constexpr int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
    struct stat found = {};
    descriptor_ = ::open(name_, flags | O_CREAT | O_EXCL, 0666);
    if (descriptor_ < 0 && errno == EEXIST) {
        // Other users can guess the name with a number. A pipe of that name would block until it has a reader.
        descriptor_ = ::open(name_, flags | (is_exact ? 0 : O_NONBLOCK));
        if (descriptor_ < 0) return errno == ELOOP ? "it is a symbolic link" : std::strerror(errno);
        const bool is_known = fstat(descriptor_, &found) == 0, is_regular = is_known && S_ISREG(found.st_mode);
        const char *why = nullptr;
        if (is_regular && (found.st_uid != geteuid() || found.st_nlink != 1))
            why = "a file of that name belongs to another user or has another hard link";
        else if (!is_regular && !is_exact)
            why = "it is not a regular file";
        else if (is_regular && ftruncate(descriptor_, 0) != 0)
            why = std::strerror(errno);
        if (why) {
            ::close(descriptor_);
            descriptor_ = -1;
            return why;
        }
    }
    if (descriptor_ < 0) return std::strerror(errno);
    identity_.remember(descriptor_);
    size_ = 0;
    return nullptr;
}

// Continues at the end of the file, which must be the same file.
bool own_file::reopen() noexcept {
    descriptor_ = ::open(name_, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor_ >= 0 && !identity_.is_file_of(descriptor_)) {
        ::close(descriptor_);
        descriptor_ = -1;
    }
    return descriptor_ >= 0 && fcntl(descriptor_, F_SETFL, O_APPEND) == 0; // a write to a pipe may block again
}

const char *own_file::write(const char *text, std::size_t size) noexcept {
    if (!identity_.is_file_of(descriptor_) && !reopen()) return "the program has closed or replaced the file";
    if (const int error = write_whole(descriptor_, text, size)) {
        const bool is_cut = ftruncate(descriptor_, size_) == 0; // fails for a pipe
        static_cast<void>(is_cut);
        return std::strerror(error);
    }
    size_ += static_cast<off_t>(size);
    return nullptr;
}

const char *own_file::close() noexcept {
    const bool is_ours = identity_.is_file_of(descriptor_);
    const bool is_closed = !is_ours || ::close(descriptor_) == 0;
    descriptor_ = -1;
    return is_closed ? nullptr : std::strerror(errno);
}

} // namespace ferry_run
