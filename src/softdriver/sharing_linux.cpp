#if defined(__linux__)
// Finds other processes by the names in their handles, checks whether they are alive, and waits for their events.
#include "softdriver/sharing.h"

#include <cstdio>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry::softdriver {

namespace {

// Record locks far past the end of the file show which processes are alive. Each process locks the byte of its
// participant number, and the system releases the lock when the process ends in any way. The locks belong to the
// process, not to the descriptor, so a forked child has none. They are lost when the process closes any descriptor of
// the file, so a process opens each file only once.
constexpr off_t locks_at = off_t{1} << 60;

struct flock lock_of(std::uint32_t participant) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = locks_at + participant;
    lock.l_len = 1;
    return lock;
}

struct path_of {
    explicit path_of(const shared_name &name) {
        std::snprintf(text, sizeof text, "/proc/%d/fd/%d", name.process, name.descriptor);
    }
    operator const char *() const { return text; }
    char text[48];
};

std::optional<std::uint64_t> file_number(const shared_name &name) {
    struct stat found {};
    if (stat(path_of(name), &found) != 0) return std::nullopt;
    return found.st_ino;
}

constexpr const char file_name[] = "ferry software device memory";

// A name may be forged, and must not make this process open any other file.
bool is_memory_of_a_driver(const shared_name &name) {
    char target[64] = {};
    const ssize_t length = readlink(path_of(name), target, sizeof target - 1);
    return length > 0 && std::strstr(target, file_name);
}

// The time that a waiter sleeps before it checks whether the process that it waits for is still alive.
constexpr long patience_ns = 20'000'000;

} // namespace

void sleep_until_changed(std::atomic<std::uint32_t> &word, std::uint32_t seen) {
    const timespec limit{.tv_sec = 0, .tv_nsec = patience_ns};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void wake_sharers(std::atomic<std::uint32_t> &word) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr,
            nullptr, 0);
}

std::int32_t own_number() { return getpid(); }

std::shared_ptr<shared_process> shared_process::make_own(int file, std::size_t page) {
    std::shared_ptr<shared_process> made(new shared_process);
    made->is_own_ = true;
    made->file_ = file;
    made->page_at_ = page;
    if (ftruncate(file, static_cast<off_t>(page + sizeof(shared_page))) != 0) throw std::bad_alloc();
    void *const mapped =
        mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(page));
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    made->page_ = static_cast<shared_page *>(mapped);
    struct stat found {};
    if (fstat(file, &found) != 0) throw std::bad_alloc();
    made->file_number_ = found.st_ino;
    made->take_part();
    if (getrandom(&made->nonce_, sizeof made->nonce_, 0) != sizeof made->nonce_) throw std::bad_alloc();
    made->page_->nonce = made->nonce_;
    return made;
}

std::shared_ptr<shared_process> shared_process::open(const shared_name &name) {
    if (!is_memory_of_a_driver(name)) return nullptr;
    std::shared_ptr<shared_process> opened(new shared_process);
    opened->opened_ = kept_descriptor(::open(path_of(name), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    opened->file_ = opened->opened_.number();
    struct stat found {};
    if (opened->file_ < 0 || fstat(opened->file_, &found) != 0) return nullptr;
    if (found.st_size < static_cast<off_t>(sizeof(shared_page))) return nullptr;
    opened->file_number_ = found.st_ino;
    opened->page_at_ = static_cast<std::size_t>(found.st_size) - sizeof(shared_page);
    void *const mapped = mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED, opened->file_,
                              static_cast<off_t>(opened->page_at_));
    if (mapped == MAP_FAILED) return nullptr;
    opened->page_ = static_cast<shared_page *>(mapped);
    opened->nonce_ = opened->page_->nonce;
    if (!opened->is_named_by(name)) return nullptr;
    opened->take_part();
    return opened;
}

shared_process::~shared_process() {
    if (page_) munmap(page_, sizeof *page_);
}

void shared_process::take_part() {
    participant_ = ++page_->participants;
    struct flock lock = lock_of(participant_);
    if (fcntl(file_, F_SETLK, &lock) != 0) throw std::bad_alloc();
}

bool shared_process::is_alive(std::uint32_t participant) const {
    if (participant == participant_) return true;
    struct flock lock = lock_of(participant);
    return fcntl(file_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool shared_process::is_same_file(const shared_name &name) const {
    const auto number = file_number(name);
    return number && *number == file_number_;
}

// The name is the entire contents of the file.
int write_name(const shared_name &name) {
    const int file = memfd_create("ferry software memory pool", MFD_CLOEXEC);
    if (file < 0) return -1;
    if (write(file, &name, sizeof name) == sizeof name) return file;
    ::close(file);
    return -1;
}

std::optional<shared_name> read_name(int file) {
    shared_name name;
    if (pread(file, &name, sizeof name, 0) != sizeof name) return std::nullopt;
    return name;
}

} // namespace ferry::softdriver
#endif
