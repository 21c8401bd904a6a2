#if defined(__linux__)
#include "system/direct_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/rounding.h"
#include "system/file.h"
#include "system/handles.h"

namespace ferry {

namespace {

constexpr std::uint64_t direct_page = 4096;
constexpr std::uint64_t max_direct_block = std::uint64_t{64} << 10;
// A chunk of a staging buffer, and the rest of its first and last block.
constexpr std::uint64_t bounce_size = (std::uint64_t{512} << 10) + 2 * direct_page;
// A shorter part is transferred together with its neighbours, through a buffer.
constexpr std::uint64_t min_in_place = std::uint64_t{64} << 10;

// The fields of `struct statx` that glibc's headers contain since Linux 6.1.
struct direct_alignment {
    std::uint32_t mask;
    std::byte unused[148];
    std::uint32_t memory, offset;
    std::byte rest[96];
};
static_assert(sizeof(direct_alignment) == 256);
constexpr std::uint32_t mask_of_alignment = 0x2000; // STATX_DIOALIGN

constexpr std::uint64_t round_down(std::uint64_t number, std::uint64_t unit) noexcept { return number / unit * unit; }

std::uint64_t total_of(const file_part *parts, std::size_t count) noexcept {
    std::uint64_t total = 0;
    for (const file_part *part = parts; part != parts + count; ++part)
        total += part->size;
    return total;
}

// The memory of a transfer, from its first byte on.
class part_cursor {
public:
    explicit part_cursor(const file_part *first) noexcept : part_(first) {}

    std::byte *here() const noexcept { return part_->memory + done_; }
    std::uint64_t left() const noexcept { return part_->size - done_; } // in this part
    // Calls run(memory, offset, size) for the next bytes, part by part.
    template <class Run> void pass(std::uint64_t size, const Run &run) noexcept {
        for (std::uint64_t offset = 0; offset != size;) {
            const std::uint64_t here_size = std::min(size - offset, left());
            run(here(), offset, here_size);
            offset += here_size;
            done_ += here_size;
            if (left() != 0) continue;
            ++part_;
            done_ = 0;
        }
    }
    // The bytes that can be transferred without a buffer: whole blocks, and enough of them.
    std::uint64_t in_place(std::uint64_t block, std::uint64_t alignment, std::uint64_t wanted) const noexcept {
        if (reinterpret_cast<std::uintptr_t>(here()) % alignment != 0) return 0;
        const std::uint64_t size = round_down(left(), block);
        return size >= std::min(min_in_place, wanted) ? size : 0;
    }

private:
    const file_part *part_;
    std::uint64_t done_ = 0; // bytes of this part
};

} // namespace

class direct_io::bounce_buffer {
public:
    explicit bounce_buffer(const direct_io &of) noexcept : of_(of) {}
    ~bounce_buffer() {
        if (!memory_) return;
        for (std::atomic<std::byte *> &place : of_.idle_) {
            std::byte *none = nullptr;
            if (place.compare_exchange_strong(none, memory_, std::memory_order_release, std::memory_order_relaxed))
                return;
        }
        of_.memory_.deallocate(memory_, bounce_size);
    }
    bounce_buffer(const bounce_buffer &) = delete;

    std::byte *get() noexcept {
        for (std::atomic<std::byte *> &place : of_.idle_) {
            if (memory_) return memory_;
            if (place.load(std::memory_order_relaxed)) memory_ = place.exchange(nullptr, std::memory_order_acquire);
        }
        if (!memory_) memory_ = static_cast<std::byte *>(of_.memory_.allocate(bounce_size, direct_page));
        return memory_;
    }

private:
    const direct_io &of_;
    std::byte *memory_ = nullptr;
};

direct_io::~direct_io() {
    if (is_open()) close(static_cast<int>(descriptor_));
    for (std::atomic<std::byte *> &place : idle_)
        if (place) memory_.deallocate(place, bounce_size);
}

std::int32_t direct_io::open(std::int64_t descriptor, bool reads, bool writes) noexcept {
    const auto open_for = [&](int access) noexcept {
        return open_again(static_cast<int>(descriptor), access | O_DIRECT);
    };
    descriptor_ = open_for(reads && writes ? O_RDWR : writes ? O_WRONLY : O_RDONLY);
    if (descriptor_ < 0) return errno;

    direct_alignment found = {};
    block_ = memory_alignment_ = direct_page;
    if (syscall(SYS_statx, static_cast<int>(descriptor_), "", AT_EMPTY_PATH, mask_of_alignment, &found) == 0 &&
        (found.mask & mask_of_alignment)) {
        if (found.offset == 0 || max_direct_block % found.offset != 0 || found.memory == 0 ||
            direct_page % found.memory != 0)
            return EOPNOTSUPP;
        // Blocks that share no page: a write of whole blocks must not overlap with a write of its neighbour through the
        // cache.
        block_ = std::max<std::uint64_t>(found.offset, direct_page);
        memory_alignment_ = found.memory;
    }

    // Some systems accept the flag, but no transfer. A file that cannot be read is not tested.
    const std::int64_t tested = reads ? descriptor_ : open_for(O_RDONLY);
    if (tested < 0) return 0;
    bounce_buffer buffer(*this);
    std::int32_t failed = ENOMEM;
    if (std::byte *const memory = buffer.get()) {
        const iovec first = {memory, block_};
        failed = preadv(static_cast<int>(tested), &first, 1, 0) < 0 && errno != EINTR ? errno : 0;
    }
    if (!reads) close(static_cast<int>(tested));
    return failed;
}

file_failure direct_io::read(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    bounce_buffer buffer(*this);
    part_cursor to(parts);
    for (const std::uint64_t end = offset + total_of(parts, count); offset != end;) {
        const std::uint64_t begin = round_down(offset, block_), head = offset - begin;
        const std::uint64_t in_place = head == 0 ? to.in_place(block_, memory_alignment_, end - offset) : 0;
        iovec there = {to.here(), in_place};
        if (in_place == 0) {
            there = {buffer.get(), std::min(round_up(end, block_) - begin, round_down(bounce_size, block_))};
            if (!there.iov_base) return {ENOMEM, offset};
        }
        const ssize_t result = preadv(static_cast<int>(descriptor_), &there, 1, static_cast<off_t>(begin));
        if (result < 0 && errno == EINTR) continue;
        if (result < 0) return {errno, offset};
        const auto found = static_cast<std::uint64_t>(result);
        if (found <= head) {
            struct stat now {};
            if (found == 0 || fstat(static_cast<int>(descriptor_), &now) != 0 ||
                static_cast<std::uint64_t>(now.st_size) <= offset)
                return {file_failure::end_of_file, offset};
            continue; // the system transferred less than a block
        }
        const std::uint64_t moved = std::min(found - head, end - offset);
        const std::byte *const from = static_cast<const std::byte *>(there.iov_base) + head;
        to.pass(moved, [&](std::byte *memory, std::uint64_t at, std::uint64_t size) noexcept {
            if (in_place == 0) std::memcpy(memory, from + at, size);
        });
        offset += moved;
    }
    return {};
}

file_failure direct_io::write(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept {
    bounce_buffer buffer(*this);
    part_cursor from(parts);
    for (const std::uint64_t end = offset + total_of(parts, count); offset != end;) {
        iovec here = {from.here(), from.in_place(block_, memory_alignment_, end - offset)};
        if (here.iov_len == 0) {
            std::byte *const memory = buffer.get();
            if (!memory) return {ENOMEM, offset};
            here = {memory, std::min(end - offset, round_down(bounce_size, block_))};
            part_cursor(from).pass(here.iov_len,
                                   [&](const std::byte *part, std::uint64_t at, std::uint64_t size) noexcept {
                                       std::memcpy(memory + at, part, size);
                                   });
        }
        const ssize_t result = pwritev(static_cast<int>(descriptor_), &here, 1, static_cast<off_t>(offset));
        if (result < 0 && errno == EINTR) continue;
        if (result <= 0) return {result == 0 ? ENOSPC : errno, offset};
        const std::uint64_t moved = round_down(static_cast<std::uint64_t>(result), block_); // the rest is repeated
        from.pass(moved, [](std::byte *, std::uint64_t, std::uint64_t) noexcept {});
        offset += moved;
    }
    return {};
}

} // namespace ferry
#endif
