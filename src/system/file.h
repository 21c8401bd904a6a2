// Open files, for copies between files and memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/host.h"
#include "base/status.h"
#include "ferry/ferry_file.h"
#include "system/direct_io.h"
#include "system/processor_descriptors.h"

namespace ferry {

// Why bytes of a file were not transferred.
struct file_failure {
    static constexpr std::int32_t end_of_file = FERRY_FILE_ENDED, cancelled = FERRY_FILE_CANCELLED;

    std::int32_t code = 0;    // the system's error number, or one of these; 0: success
    std::uint64_t offset = 0; // the first byte of the file that was not transferred

    explicit operator bool() const noexcept { return code != 0; }
};
error to_error(const file_failure &failed) noexcept; // without a side

struct file_part {
    std::byte *memory;
    std::uint64_t size; // bytes
};

class open_file {
public:
    struct access {
        bool reads = false, writes = false;
        bool creates = false;    // only for a path
        bool is_durable = false; // written bytes, when end_writes() returns
    };

    explicit open_file(const allocator &memory) noexcept : direct_(memory) {}
    ~open_file();
    open_file(const open_file &) = delete;
    open_file &operator=(const open_file &) = delete;

    // These functions return the system's error number; 0: success. They must be called once, before all others.
    std::int32_t open(const char *path, const access &wanted) noexcept; // UTF-8
    // Duplicates a file descriptor or, on Windows, a handle. The access becomes the access of the descriptor.
    std::int32_t share(std::int64_t descriptor) noexcept;
    std::int32_t truncate() noexcept;                                  // of a path
    void restrict(const access &wanted) noexcept { access_ = wanted; } // to an access that it has
    // Transfers bypass the page cache from now on. Without `is_strict`, transfers that the system refuses use the cache.
    std::int32_t use_direct_io(bool is_strict) noexcept;

    bool is_regular() const noexcept; // not a pipe, a device or a directory
    bool may_read() const noexcept { return access_.reads; }
    bool may_write() const noexcept { return access_.writes; }
    // Returns the system's error number; 0: success.
    std::int32_t measure(std::uint64_t &size) const noexcept;
    // Transfer contiguous bytes of the file from or to several parts of memory, at least one and at most max_parts.
    // None is empty. Several threads may do so at the same time. The calls block, and are repeated after a signal.
    // `is_repeated`: other short reads came directly before this one.
    static constexpr std::size_t max_parts = 64;
    file_failure read(std::uint64_t offset, const file_part *parts, std::size_t count, bool is_repeated) const noexcept;
    file_failure write(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept;
    // For reads through the page cache. is_missing() returns true if the byte is known not to be cached. expect() starts
    // to read a range into the cache.
    bool is_missing(std::uint64_t offset) const noexcept;
    void expect(std::uint64_t offset, std::uint64_t size) const noexcept;
    // Whether a read would wait for the disk, judged by a sample of the bytes. False if the file system does not
    // report it, as on servers, where only more threads make reads faster.
    bool is_slow(std::uint64_t offset, std::uint64_t size) const noexcept;
    // Lets the file system reserve space for bytes that are about to be written. The size of the file does not change.
    void reserve(std::uint64_t offset, std::uint64_t size) const noexcept;
    // Must be called after the last write of a copy. Returns the system's error number; 0: success.
    std::int32_t end_writes() const noexcept { return access_.is_durable ? flush() : 0; }

private:
    file_failure read_cached(int descriptor, std::uint64_t offset, const file_part *parts,
                             std::size_t count) const noexcept;
    file_failure write_cached(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept;
    file_failure write_directly(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept;
    bool is_refused(const file_failure &failed) const noexcept; // a direct transfer
    std::int32_t flush() const noexcept;

    std::int64_t handle_ = -1;
    access access_;
    direct_io direct_;
    bool is_strict_ = false;
    mutable processor_descriptors for_repeated_reads_;
};

} // namespace ferry

// A file of the program. It stays open until the program has closed it and no copy uses it any more.
namespace ferry {

// FERRY_FILE_READ, FERRY_FILE_WRITE or both.
inline std::uint32_t access_of(const open_file &file) noexcept {
    return (file.may_read() ? FERRY_FILE_READ : 0) | (file.may_write() ? FERRY_FILE_WRITE : 0);
}

} // namespace ferry

struct ferry_file {
    explicit ferry_file(const ferry::allocator &memory) noexcept : file(memory), memory(memory) {}

    ferry::open_file file;
    ferry::allocator memory;
    std::uint32_t max_threads = 0; // that transfer bytes of one copy at the same time; 0: no limit
    std::atomic<std::uint32_t> uses = 1;
    ferry_file *next_unused = nullptr;
};

namespace ferry {

inline void retain(ferry_file &file) noexcept { file.uses.fetch_add(1, std::memory_order_relaxed); }
// Returns whether that was the last use. close_unused() must then be called, which may wait for the file system.
bool drop(ferry_file &file) noexcept;
void close_unused(ferry_file &file) noexcept;
inline void release(ferry_file &file) noexcept {
    if (drop(file)) close_unused(file);
}

} // namespace ferry
