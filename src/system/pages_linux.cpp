#if defined(__linux__)
#include "system/pages.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/rounding.h"
#include "system/control_groups.h"
#include "system/threads.h"

namespace ferry {

namespace {

// Below this size, reading the amount of free memory takes longer than allocating the memory.
constexpr std::uint64_t worth_asking = std::uint64_t{16} << 20;

thread_local std::uint64_t faulting_ns = 0;

// libc has no wrappers for mbind and get_mempolicy (node_of_page), and a sandbox may forbid both.
void prefer_node(void *pages, std::uint64_t size, int node) noexcept {
    constexpr unsigned bits = 8 * sizeof(unsigned long);
    unsigned long nodes[1024 / bits] = {};
    const auto number = static_cast<unsigned>(node);
    if (number >= 1024) return;
    nodes[number / bits] = 1UL << number % bits;
    syscall(SYS_mbind, pages, size, MPOL_PREFERRED, nodes, 1024UL + 1, 0U);
}

// The beginning of a small file. Its bytes are not on the stack, because callers may have small stacks.
class text {
public:
    text() noexcept {
        void *const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped != MAP_FAILED) mapped_ = static_cast<char *>(mapped);
    }
    ~text() {
        if (mapped_) munmap(mapped_, size);
    }
    text(const text &) = delete;
    text &operator=(const text &) = delete;

    const char *bytes() const noexcept { return mapped_ ? mapped_ : ""; }
    explicit operator bool() const noexcept { return *bytes() != '\0'; }

    // Empty if the file cannot be read.
    void read(const char *path) noexcept {
        if (!mapped_) return;
        ssize_t length = 0;
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0) {
            length = ::read(file, mapped_, size - 1);
            close(file);
        }
        mapped_[std::max<ssize_t>(length, 0)] = '\0';
    }

private:
    static constexpr std::size_t size = 8192;
    char *mapped_ = nullptr;
};

// Finds the number after `key`; false if no number follows, as in "max".
bool find_number(const text &in, const char *key, std::uint64_t &number) noexcept {
    const char *at = std::strstr(in.bytes(), key);
    if (!at) return false;
    at += std::strlen(key);
    char *end = nullptr;
    number = std::strtoull(at, &end, 10);
    return end != at;
}

// Returns whether the system provides huge pages of the usual size to programs that request them. If small pages are
// not 4 KiB, huge pages may be as large as 512 MiB.
bool has_huge_pages() noexcept {
    text read;
    std::uint64_t size = 0;
    read.read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    if (!find_number(read, "", size) || size != huge_page) return false;
    read.read("/sys/kernel/mm/transparent_hugepage/enabled");
    return read && !std::strstr(read.bytes(), "[never]");
}
bool gives_huge_pages() noexcept {
    enum answer : int { unknown, no, yes };
    static std::atomic<answer> known = unknown; // a constant, because other values need a guard of the C++ runtime
    if (known == unknown) known = has_huge_pages() ? yes : no;
    return known == yes;
}

bool is_present(std::uint64_t address) noexcept {
    const std::uint64_t page = page_size();
    unsigned char present = 1;
    return mincore(reinterpret_cast<void *>(address / page * page), page, &present) != 0 || present & 1;
}

// Replaces private pages by shared pages in several kernel objects, so that threads rarely contend for the lock of one
// object. Measured on 16 processors beside an H100: 1 GiB is touched in 220 ms with one object, and in 90 to 140 ms
// with 16 objects.
bool map_shared(void *pages, std::uint64_t size) noexcept {
    constexpr std::uint64_t objects = 16;
    const std::uint64_t share = round_up(divide_up(size, objects), size >= objects * huge_page ? huge_page : size);
    for (std::uint64_t at = 0; at < size; at += share) {
        void *const part = static_cast<std::byte *>(pages) + at;
        const std::uint64_t length = std::min(share, size - at);
        if (mmap(part, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return false;
        madvise(part, length, MADV_HUGEPAGE); // for Linux before 6.1 with shmem_enabled set to `advise`
    }
    return true;
}

} // namespace

std::uint64_t page_size() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

void *map_pages(std::uint64_t size, int node, inheritance children) noexcept {
    const std::uint64_t lead = size >= huge_page ? huge_page : 0;
    std::uint64_t whole = 0;
    if (!add(size, lead + page_size(), whole)) return nullptr;
    size = round_up(size, page_size());
    whole = size + lead;
    void *const mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto *const first = static_cast<std::byte *>(mapped);
    std::byte *pages = first;
    if (lead) {
        pages = reinterpret_cast<std::byte *>(round_up(reinterpret_cast<std::uintptr_t>(first), huge_page));
        if (pages != first) munmap(first, static_cast<std::size_t>(pages - first));
        if (pages + size != first + whole) munmap(pages + size, static_cast<std::size_t>(first + whole - pages) - size);
        madvise(pages, size, MADV_HUGEPAGE);
    }
    // Prevents copies of private pages in a child: the kernel copies all pinned pages at the fork.
    const bool is_inherited_right =
        children == inheritance::shared ? map_shared(pages, size) : madvise(pages, size, MADV_DONTFORK) == 0;
    if (!is_inherited_right) {
        munmap(pages, size);
        return nullptr;
    }
    if (node != any_node) prefer_node(pages, size, node);
    return pages;
}

// Several threads release 1 GiB of shared pages in 20 ms, one thread in 80 ms (16 processors beside an H100). Unlike
// unmapping, removing pages from the page tables does not block other threads.
void unmap_pages(void *pages, std::uint64_t size) noexcept {
    constexpr std::uint64_t worth_threads = std::uint64_t{64} << 20;
    size = round_up(size, page_size());
    for_parts_of_pages(size, size < worth_threads ? 1 : 0, [=](std::uint64_t begin, std::uint64_t end) noexcept {
        void *const part = static_cast<std::byte *>(pages) + begin;
        if (end - begin < size) madvise(part, end - begin, MADV_DONTNEED);
        munmap(part, end - begin);
    });
}

// By default the system backs shared memory with small pages (shmem_enabled: never). Collapsing (Linux 6.1) requests
// huge pages regardless of that setting, for ranges in which at least one small page is present. Measured on 16
// processors beside an H100, 1 GiB, 8 threads: 37 ms instead of 157, released in 3 ms instead of 94.
void back_with_huge_pages(void *pages, std::uint64_t size) noexcept {
    constexpr int collapse = 25; // MADV_COLLAPSE, which headers before Linux 6.1 lack
    const std::uint64_t whole = size / huge_page * huge_page;
    if (!whole || !gives_huge_pages()) return;
    for (std::uint64_t at = 0; at < whole; at += huge_page)
        static_cast<volatile char *>(pages)[at] = 0;
    madvise(pages, whole, collapse);
}

// The request includes the whole pages at both ends, so that memory of malloc() remains one mapping. Measured on 16
// processors beside an H100, 1 GiB, 8 threads: touched in 28 ms instead of 81, unmapped in 3 ms instead of 51.
bool ask_for_huge_pages(void *memory, std::uint64_t size) noexcept {
    constexpr std::uint64_t large = 2 * huge_page;
    if (size < large || !gives_huge_pages()) return false;
    const std::uint64_t page = page_size(), at = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t begin = at / page * page, end = round_up(at + size, page);
    for (const std::uint64_t quarter : {1, 2, 3}) // not the ends, which earlier checks have read
        if (is_present(at + size / 4 * quarter)) return false;
    return madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE) == 0;
}

void fault_in(void *memory, std::uint64_t size) noexcept {
#if defined(MADV_POPULATE_WRITE) // Linux 5.14; on older kernels, writing faults the pages in
    constexpr std::uint64_t few_pages = 4;
    const std::uint64_t page = page_size(), at = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t begin = at / page * page, end = round_up(at + size, page);
    if (end - begin <= few_pages * page) return;
    if (is_present(end - page) && is_present(begin + (end - begin) / 2)) return;
    const std::uint64_t start = clock_ns();
    madvise(reinterpret_cast<void *>(begin), end - begin, MADV_POPULATE_WRITE);
    faulting_ns += clock_ns() - start;
#else
    (void)memory, (void)size;
#endif
}

void fault_in_page(void *address) noexcept {
    const std::uint64_t start = clock_ns();
    touch_byte(address);
    faulting_ns += clock_ns() - start;
}

std::uint64_t faulting_ns_of_caller() noexcept { return faulting_ns; }

bool is_memory_left(std::uint64_t size) noexcept {
    if (size < worth_asking) return true;
    text scratch;
    std::uint64_t left = UINT64_MAX, number = 0;
    scratch.read("/proc/meminfo");
    if (find_number(scratch, "MemAvailable:", number)) left = number << 10;
    left = std::min(left, memory_left_in_groups());
    return size <= left - left / 16; // both values are estimates
}

int node_of_page(const void *address) noexcept {
    int node = any_node;
    const long result = syscall(SYS_get_mempolicy, &node, nullptr, 0UL, address, MPOL_F_NODE | MPOL_F_ADDR);
    return result == 0 ? node : any_node;
}

bool is_node(int node) noexcept {
    if (node < 0) return false;
    constexpr const char *all = "/sys/devices/system/node";
    char name[64];
    std::snprintf(name, sizeof name, "%s/node%d", all, node);
    return ::access(name, F_OK) == 0 || ::access(all, F_OK) != 0;
}

} // namespace ferry
#endif
