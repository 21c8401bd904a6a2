#if defined(__linux__)
#include "softdriver/external_file.h"

#include <sys/stat.h>
#include <unistd.h>

namespace ferry::softdriver {

namespace {

// The header that Mesa's CPU drivers write before the memory (22.3; os_memory_fd.c). The memory extends to the end of
// the file.
struct mesa_header {
    std::uint64_t file_size;
    std::uint64_t memory_offset;
};

} // namespace

external_file::external_file(int descriptor) noexcept : descriptor_(descriptor) {
    struct stat found {};
    if (fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) return;
    const auto file_size = static_cast<std::uint64_t>(found.st_size);
    mesa_header header = {};
    const bool is_read = pread(descriptor, &header, sizeof header, 0) == sizeof header;
    if (is_read && header.file_size == file_size && header.memory_offset < file_size) begin_ = header.memory_offset;
    size_ = file_size - begin_;
}

} // namespace ferry::softdriver
#endif
