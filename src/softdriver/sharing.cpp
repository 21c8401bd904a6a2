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

// Record locks on the file, far beyond its end, show which processes are alive. Each process locks the byte of its
// participant number, and the system releases the lock when the process ends, however it ends. The locks belong to the
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

// How long a waiter sleeps before it checks that the process it waits for is still alive.
constexpr long patience_ns = 20'000'000;

void sleep_until_changed(std::atomic<std::uint32_t> &word, std::uint32_t seen) {
    const timespec limit{.tv_sec = 0, .tv_nsec = patience_ns};
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t> &word) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t *>(&word), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr,
            nullptr, 0);
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

// A name may be forged: it must not make this process open any other file.
bool is_memory_of_a_driver(const shared_name &name) {
    char target[64] = {};
    const ssize_t length = readlink(path_of(name), target, sizeof target - 1);
    return length > 0 && std::strstr(target, file_name);
}

} // namespace

std::uint64_t shared_name::sum() const {
    std::uint64_t sum = 0x6665'7272'7920'6970; // "ferry ip"
    for (const std::uint64_t part :
         {nonce, std::uint64_t(process), std::uint64_t(descriptor), std::uint64_t(kind), std::uint64_t{slot}, serial})
        sum = (sum ^ part) * 0x9e37'79b9'7f4a'7c15 + (sum >> 29);
    return sum;
}

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
    opened->file_ = ::open(path_of(name), O_RDWR | O_CLOEXEC | O_NONBLOCK);
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
    if (!is_own_ && file_ >= 0) ::close(file_);
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

shared_slot *shared_process::find(const shared_name &name) const {
    if (name.slot >= shared_page::max_slots) return nullptr;
    shared_slot &found = slot(name.slot);
    return name.serial != 0 && found.serial == name.serial && found.kind == name.kind ? &found : nullptr;
}

std::optional<std::uint32_t> shared_process::publish(shared_kind kind, int device, std::uint64_t offset,
                                                     std::uint64_t size, std::uint64_t pool) {
    static std::atomic<std::uint64_t> last_serial = 0;
    for (std::uint32_t i = 0; i < shared_page::max_slots; ++i) {
        shared_slot &taken = slot(i);
        if (taken.serial != 0) continue;
        taken.kind = kind;
        taken.device = device;
        taken.offset = offset;
        taken.size = size;
        taken.pool = pool;
        taken.last_ticket = 0;
        for (shared_slot::record &one : taken.records)
            one.taken = one.finished = 0;
        taken.serial = ++last_serial;
        return i;
    }
    return std::nullopt;
}

shared_name shared_process::name_of(std::uint32_t index) const {
    const shared_slot &named = slot(index);
    shared_name name{nonce_, getpid(), file_, named.kind, index, named.serial};
    name.check = name.sum();
    return name;
}

shared_event::shared_event(std::shared_ptr<shared_process> in, const shared_name &name)
    : in_(std::move(in)), slot_(name.slot), at_(in_->slot(slot_)), serial_(name.serial) {}

shared_event::~shared_event() {
    if (!is_own()) return;
    in_->retire(slot_);
    ++at_.changes;
    wake_all(at_.changes);
}

std::uint64_t shared_event::take_ticket() {
    const std::uint64_t ticket = ++at_.last_ticket;
    at_.records[ticket % shared_slot::remembered].taken = ticket << 32 | in_->participant();
    return ticket;
}

void shared_event::finish(std::uint64_t ticket) {
    if (is_gone()) return;
    std::atomic<std::uint64_t> &finished = at_.records[ticket % shared_slot::remembered].finished;
    std::uint64_t before = finished;
    while (before < ticket && !finished.compare_exchange_weak(before, ticket))
        continue;
    ++at_.changes;
    wake_all(at_.changes);
}

bool shared_event::is_finished(std::uint64_t ticket) const {
    const shared_slot::record &of = at_.records[ticket % shared_slot::remembered];
    if (ticket == 0 || is_gone() || of.finished >= ticket) return true;
    const std::uint64_t taken = of.taken;
    const bool is_of_ticket = taken >> 32 == (ticket & 0xffff'ffff);
    return is_of_ticket && !in_->is_alive(static_cast<std::uint32_t>(taken));
}

void shared_event::wait(std::uint64_t ticket) const {
    for (;;) {
        const std::uint32_t seen = at_.changes;
        if (is_finished(ticket)) return;
        sleep_until_changed(at_.changes, seen);
    }
}

} // namespace ferry::softdriver
