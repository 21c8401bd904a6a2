#include "support/huge_pages.h"

#if defined(__linux__)
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include <sys/mman.h>

#include "base/rounding.h"
#include "support/system.h"
#endif

namespace ferry::test {

#if defined(__linux__)

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr int collapse = 25; // MADV_COLLAPSE, Linux 6.1

bool has_huge_pages_after(int kind, int advice_before, int advice_after) {
    constexpr std::size_t size = 4 * huge_page;
    const mapped_memory around(size + huge_page);
    const std::uint64_t first = round_up(around.address(), huge_page);
    void *const mapped = mmap(reinterpret_cast<void *>(first), size, PROT_READ | PROT_WRITE,
                              kind | MAP_ANONYMOUS | MAP_FIXED, -1, 0); // unmapped together with its surroundings
    if (mapped == MAP_FAILED) return false;
    madvise(mapped, size, advice_before);
    for (std::size_t at = 0; at < size; at += huge_page)
        static_cast<volatile char *>(mapped)[at] = 0;
    madvise(mapped, size, advice_after);
    return huge_pages_of(mapped, size).bytes != 0;
}

} // namespace

huge_pages huge_pages_of(const void *memory, std::size_t size) {
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(memory);
    huge_pages found;
    bool overlaps = false;
    std::ifstream mappings("/proc/self/smaps");
    for (std::string line; std::getline(mappings, line);) {
        std::uint64_t begin = 0, end = 0, kib = 0;
        if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
            overlaps = begin < first + size && first < end;
        if (!overlaps) continue;
        if (std::sscanf(line.c_str(), "AnonHugePages: %" SCNu64, &kib) == 1 ||
            std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNu64, &kib) == 1)
            found.bytes += kib << 10;
        if (line.rfind("VmFlags:", 0) == 0 && line.find(" hg") != std::string::npos) found.are_asked_for = true;
    }
    return found;
}

bool can_have_huge_pages() { return has_huge_pages_after(MAP_PRIVATE, MADV_HUGEPAGE, MADV_NORMAL); }
bool can_share_huge_pages() {
    // ferry does not request huge pages if the system gives them to no program, although collapsing works there too.
    return can_have_huge_pages() && has_huge_pages_after(MAP_SHARED, MADV_NORMAL, collapse);
}

#else

huge_pages huge_pages_of(const void *, std::size_t) { return {}; }
bool can_have_huge_pages() { return false; }
bool can_share_huge_pages() { return false; }

#endif

} // namespace ferry::test
