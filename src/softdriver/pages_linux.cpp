#if defined(__linux__)
#include "softdriver/pages.h"

#include <new>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rounding.h"
#include "system/pages.h"

namespace ferry::softdriver {

namespace {

void *map(std::size_t bytes, int access, int flags) {
    void *const pages = mmap(nullptr, bytes, access, MAP_ANONYMOUS | flags, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
}

} // namespace

// Shared with the children of a fork, like the real driver's memory (seen on CUDA 13.0, H100).
void *map_host_pages(std::size_t bytes, bool is_lazy) {
    return map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (is_lazy ? MAP_NORESERVE : 0));
}

void *reserve_host_pages(std::size_t bytes) { return map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE); }

bool provide_host_pages(std::uintptr_t, std::size_t) { return true; }

void unmap_host_pages(void *pages, std::size_t bytes) { munmap(pages, bytes); }

void discard_host_pages(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t page = page_size();
    const std::uintptr_t begin = (address + page - 1) & ~(page - 1), end = (address + bytes) & ~(page - 1);
    if (begin < end) madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

bool are_mapped(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t begin = address & ~(std::uintptr_t{page_size()} - 1);
    // On Linux, MS_ASYNC only checks whether the range is mapped.
    return msync(reinterpret_cast<void *>(begin), address + bytes - begin, MS_ASYNC) == 0;
}

device_pages::device_pages(std::size_t bytes, std::size_t alignment)
    : bytes_(bytes), reserved_bytes_(2 * bytes + alignment) {
    file_ = kept_descriptor(memfd_create("ferry software device memory", MFD_CLOEXEC));
    const bool is_sized = ftruncate(file_.number(), static_cast<off_t>(bytes)) == 0;
    reserved_ = map(reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    void *const memory = map(2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    memory_ = reinterpret_cast<std::uintptr_t>(memory);
    if (!is_sized || !reserved_ || !memory ||
        mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file(), 0) == MAP_FAILED) {
        unmap();
        throw std::bad_alloc();
    }
    madvise(memory, bytes, MADV_DONTFORK);
    begin_ = round_up(reinterpret_cast<std::uintptr_t>(reserved_), alignment);
}

device_pages::~device_pages() { unmap(); }

void device_pages::unmap() {
    if (reserved_) munmap(reserved_, reserved_bytes_);
    if (memory_) munmap(reinterpret_cast<void *>(memory_), 2 * bytes_);
}

bool device_pages::provide(std::uintptr_t, std::size_t) { return true; }

void device_pages::discard(std::uintptr_t address, std::size_t bytes) {
    fallocate(file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address - begin_),
              static_cast<off_t>(bytes));
}

bool device_pages::map_import(std::uintptr_t address, int file, std::uint64_t offset, std::size_t bytes) {
    void *const at = reinterpret_cast<void *>(address + distance());
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
             static_cast<off_t>(offset)) == MAP_FAILED)
        return false;
    madvise(at, bytes, MADV_DONTFORK);
    return true;
}

bool device_pages::unmap_import(std::uintptr_t address, std::size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    return mmap(reinterpret_cast<void *>(address + distance()), bytes, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

} // namespace ferry::softdriver
#endif
