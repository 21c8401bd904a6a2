// Transfers between a file and memory that bypass the page cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/host.h"

namespace ferry {

struct file_failure;
struct file_part;

class direct_io {
public:
    explicit direct_io(const allocator &memory) noexcept : memory_(memory) {}
    ~direct_io();
    direct_io(const direct_io &) = delete;
    direct_io &operator=(const direct_io &) = delete;

    // Opens the file of a descriptor a second time and reads its first block. Must be called at most once. Returns the
    // system's error number; 0: success.
    std::int32_t open(std::int64_t descriptor, bool reads, bool writes) noexcept;
    bool is_open() const noexcept { return descriptor_ >= 0; }

    // As the functions of open_file. Offsets, sizes and memory of reads may have any alignment. Writes transfer whole
    // blocks of the file, which are multiples of a page.
    std::uint64_t block() const noexcept { return block_; }
    file_failure read(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept;
    file_failure write(std::uint64_t offset, const file_part *parts, std::size_t count) const noexcept;

private:
    class bounce_buffer;

    allocator memory_;
    std::int64_t descriptor_ = -1;
    std::uint64_t block_ = 0, memory_alignment_ = 0; // that the system requires
    // Aligned buffers for parts whose memory is not aligned. Each transfer has one. At most these stay allocated, less
    // than 8 MiB.
    mutable std::atomic<std::byte *> idle_[14] = {};
};

} // namespace ferry
