#if defined(__linux__)
#include "system/file.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/rounding.h"
#include "system/handles.h"

namespace ferry {

namespace {

// Repeats a transfer until all bytes are transferred. transfer(parts, count, offset) makes one system call.
template <class Transfer>
file_failure transfer_all(std::uint64_t offset, const file_part *parts, std::size_t count, std::int32_t if_nothing,
                          const Transfer &transfer) noexcept {
    iovec left[open_file::max_parts];
    for (std::size_t i = 0; i < count; ++i)
        left[i] = {parts[i].memory, parts[i].size};
    for (iovec *first = left, *const end = left + count; first != end;) {
        const ssize_t result = transfer(first, static_cast<int>(end - first), static_cast<off_t>(offset));
        if (result < 0 && errno == EINTR) continue;
        if (result <= 0) return {result == 0 ? if_nothing : errno, offset};
        auto moved = static_cast<std::uint64_t>(result);
        offset += moved;
        for (; first != end && moved >= first->iov_len; ++first)
            moved -= first->iov_len;
        if (first != end) *first = {static_cast<std::byte *>(first->iov_base) + moved, first->iov_len - moved};
    }
    return {};
}

} // namespace

open_file::~open_file() {
    if (handle_ >= 0) close(static_cast<int>(handle_));
}

std::int32_t open_file::open(const char *path, const access &wanted) noexcept {
    int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK; // opening a pipe would wait for its other end
    flags |= wanted.reads && wanted.writes ? O_RDWR : wanted.writes ? O_WRONLY : O_RDONLY;
    if (wanted.creates) flags |= O_CREAT;
    do
        handle_ = ::open(path, flags, 0666);
    while (handle_ < 0 && errno == EINTR);
    if (handle_ < 0) return errno;
    access_ = wanted;
    return 0;
}

std::int32_t open_file::share(std::int64_t descriptor) noexcept {
    if (descriptor < 0 || descriptor > INT_MAX) return EBADF;
    const int flags = fcntl(static_cast<int>(descriptor), F_GETFL);
    if (flags < 0) return errno;
    if (flags & O_PATH) return EBADF;
    handle_ = duplicate_descriptor(static_cast<int>(descriptor));
    if (handle_ < 0) return errno;
    const int mode = flags & O_ACCMODE;
    access_ = {.reads = mode != O_WRONLY, .writes = mode != O_RDONLY && !(flags & O_APPEND)};
    return 0;
}

bool open_file::is_regular() const noexcept {
    struct stat found {};
    return fstat(static_cast<int>(handle_), &found) == 0 && S_ISREG(found.st_mode);
}

std::int32_t open_file::measure(std::uint64_t &size) const noexcept {
    struct stat found {};
    if (fstat(static_cast<int>(handle_), &found) != 0) return errno;
    size = static_cast<std::uint64_t>(found.st_size);
    return 0;
}

std::int32_t open_file::truncate() noexcept {
    while (ftruncate(static_cast<int>(handle_), 0) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

std::int32_t open_file::use_direct_io(bool is_strict) noexcept {
    is_strict_ = is_strict;
    return direct_.open(handle_, access_.reads, access_.writes);
}

std::int32_t open_file::flush() const noexcept {
    while (fdatasync(static_cast<int>(handle_)) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

// Some file systems refuse direct transfers only at some places, such as in compressed files.
bool open_file::is_refused(const file_failure &failed) const noexcept {
    return !is_strict_ && (failed.code == EINVAL || failed.code == EOPNOTSUPP);
}

namespace {

// Reads a byte if that does not wait. By number: glibc has the function since 2.26. The second half of the offset is used
// only by systems of 32 bits.
bool read_at_once(std::int64_t descriptor, std::uint64_t offset) noexcept {
    constexpr unsigned long no_wait = 8; // RWF_NOWAIT
    std::byte byte;
    const iovec there = {&byte, 1};
    return syscall(SYS_preadv2, static_cast<int>(descriptor), &there, 1UL, static_cast<unsigned long>(offset), 0UL,
                   no_wait) >= 0;
}

} // namespace

bool open_file::is_missing(std::uint64_t offset) const noexcept {
    return !direct_.is_open() && !read_at_once(handle_, offset) && errno == EAGAIN;
}

bool open_file::is_slow(std::uint64_t offset, std::uint64_t size) const noexcept {
    constexpr std::uint64_t samples = 8, between = std::uint64_t{1} << 20;
    const std::uint64_t step = std::max(size / samples, between);
    for (std::uint64_t at = 0; at < size; at += step)
        if (is_missing(offset + at)) return true;
    return false;
}

void open_file::expect(std::uint64_t offset, std::uint64_t size) const noexcept {
    posix_fadvise(static_cast<int>(handle_), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

// Without this, each call that writes new bytes looks for space. 8 threads, 1 GiB into a new file, ext4 on a virtual disk,
// medians of 5: into the page cache 4.7 instead of 3.0 GB/s, with fdatasync 1.5 instead of 0.9, directly 1.8 instead of
// 1.3. Other threads wait meanwhile, so a few bytes are not worth it. Errors are not reported: a write that lacks space
// fails itself.
void open_file::reserve(std::uint64_t offset, std::uint64_t size) const noexcept {
    constexpr std::uint64_t least = std::uint64_t{4} << 20;
    if (size >= least)
        static_cast<void>(fallocate(static_cast<int>(handle_), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                                    static_cast<off_t>(size)));
}

file_failure open_file::read(std::uint64_t offset, const file_part *parts, std::size_t count,
                             bool is_repeated) const noexcept {
    if (direct_.is_open())
        if (const file_failure failed = direct_.read(offset, parts, count); !is_refused(failed)) return failed;
    const auto descriptor = static_cast<int>(handle_);
    return read_cached(is_repeated ? for_repeated_reads_.here(descriptor) : descriptor, offset, parts, count);
}

file_failure open_file::write(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    return direct_.is_open() ? write_directly(offset, parts, count) : write_cached(offset, parts, count);
}

// The bytes before and behind the whole blocks go through the cache.
file_failure open_file::write_directly(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    std::uint64_t end = offset;
    for (std::size_t i = 0; i < count; ++i)
        end += parts[i].size;
    const std::uint64_t block = direct_.block(), blocks = round_up(offset, block), blocks_end = end / block * block;
    if (blocks >= blocks_end) return write_cached(offset, parts, count);
    const auto write_range = [&](std::uint64_t from, std::uint64_t to, bool is_direct) noexcept -> file_failure {
        file_part inside[max_parts];
        std::size_t found = 0;
        std::uint64_t at = offset;
        for (const file_part *part = parts; part != parts + count; at += (part++)->size) {
            const std::uint64_t begin = std::max(at, from), stop = std::min(at + part->size, to);
            if (begin < stop) inside[found++] = {part->memory + (begin - at), stop - begin};
        }
        if (found == 0) return {};
        if (is_direct)
            if (const file_failure failed = direct_.write(from, inside, found); !is_refused(failed)) return failed;
        return write_cached(from, inside, found);
    };
    file_failure failed = write_range(offset, blocks, false);
    if (!failed) failed = write_range(blocks, blocks_end, true);
    return failed ? failed : write_range(blocks_end, end, false);
}

file_failure open_file::read_cached(int descriptor, std::uint64_t offset, const file_part *parts,
                                    std::size_t count) const noexcept {
    return transfer_all(
        offset, parts, count, file_failure::end_of_file,
        [&](const iovec *left, int number, off_t at) noexcept { return preadv(descriptor, left, number, at); });
}

file_failure open_file::write_cached(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    return transfer_all(offset, parts, count, ENOSPC, [&](const iovec *left, int number, off_t at) noexcept {
        return pwritev(static_cast<int>(handle_), left, number, at);
    });
}

} // namespace ferry
#endif
