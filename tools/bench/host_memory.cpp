#include "host_memory.h"

#include <algorithm>
#include <new>
#include <thread>
#include <vector>

#if defined(_WIN32)
#include "system/windows_api.h"
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace bench {

namespace {

constexpr std::size_t huge_page = 2 << 20, min_page = 4096;

void touch(std::byte *begin, std::size_t size) {
    for (std::size_t at = 0; at < size; at += min_page)
        static_cast<volatile std::byte *>(begin)[at] = std::byte{1};
}

void touch_by_all_processors(std::byte *begin, std::size_t size) {
    const std::size_t most = std::max(1u, std::thread::hardware_concurrency()),
                      pages = (size + huge_page - 1) / huge_page, part = (pages + most - 1) / most * huge_page;
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < size; first += part)
        threads.emplace_back(touch, begin + first, std::min(part, size - first));
    for (std::thread &one : threads)
        one.join();
}

} // namespace

std::size_t free_host_memory() {
#if defined(_WIN32)
    MEMORYSTATUSEX now = {};
    now.dwLength = sizeof now;
    return GlobalMemoryStatusEx(&now) ? now.ullAvailPhys : 0;
#else
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
#endif
}

owned<void *> allocate_touched(std::size_t size) {
    constexpr auto alignment = std::align_val_t{huge_page};
    void *const memory = ::operator new(size, alignment);
#if defined(__linux__)
    madvise(memory, size, MADV_HUGEPAGE); // optional: the system may have no huge pages
#endif
    touch_by_all_processors(static_cast<std::byte *>(memory), size);
    return {memory, [](void *memory) { ::operator delete(memory, alignment); }};
}

owned<void *> map_untouched(std::size_t size) {
#if defined(_WIN32)
    void *const memory = VirtualAlloc(nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (memory) return {memory, [](void *memory) { VirtualFree(memory, 0, MEM_RELEASE); }};
#else
    void *const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) return {memory, [size](void *memory) { munmap(memory, size); }};
#endif
    fail("cannot allocate " + std::to_string(size) + " bytes of host memory");
}

owned<void *> map_cached(std::size_t size) {
#if defined(__linux__)
    // Large enough that threads, which copy neighbouring chunks, write different bytes.
    constexpr std::size_t mapped_each = 8 << 20;
    const int file = memfd_create("ferry-bench", MFD_CLOEXEC);
    if (file < 0) return {nullptr, [](void *) {}};
    const std::size_t all = (size + mapped_each - 1) / mapped_each * mapped_each;
    owned<void *> memory = map_untouched(all);
    bool is_mapped = ftruncate(file, mapped_each) == 0;
    for (std::size_t at = 0; is_mapped && at < all; at += mapped_each)
        is_mapped = mmap(static_cast<std::byte *>(memory.get()) + at, mapped_each, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED | MAP_POPULATE, file, 0) != MAP_FAILED;
    close(file);
    if (is_mapped) return memory;
#endif
    static_cast<void>(size);
    return {nullptr, [](void *) {}};
}

void renew_untouched(void *memory, std::size_t size) {
#if defined(_WIN32)
    const bool is_renewed =
        VirtualFree(memory, size, MEM_DECOMMIT) && VirtualAlloc(memory, size, MEM_COMMIT, PAGE_READWRITE);
#else
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    const bool is_renewed = mmap(memory, size, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED;
#endif
    if (!is_renewed) fail("cannot allocate " + std::to_string(size) + " bytes of host memory");
}

void warm_host_memory(std::size_t size) {
    const std::size_t bytes = std::min(size, free_host_memory() / 2);
    if (bytes) allocate_touched(bytes);
}

} // namespace bench
