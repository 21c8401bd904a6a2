#if defined(_WIN32)
#include "system/pages.h"

#include <algorithm>

#include "base/rounding.h"
#include "system/windows_api.h"

namespace ferry {

namespace {

// The value that the system itself uses for "no preference"; not every header defines it.
constexpr DWORD no_preferred_node = 0xffff'ffff;

} // namespace

std::uint64_t page_size() noexcept {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

// Pages of 4 KiB. Large pages require a privilege that few accounts have.
void *map_pages(std::uint64_t size, int node, inheritance) noexcept {
    const DWORD preferred = node == any_node ? no_preferred_node : static_cast<DWORD>(node);
    return VirtualAllocExNuma(GetCurrentProcess(), nullptr, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE, preferred);
}

void unmap_pages(void *pages, std::uint64_t) noexcept { VirtualFree(pages, 0, MEM_RELEASE); }

void back_with_huge_pages(void *, std::uint64_t) noexcept {}
bool ask_for_huge_pages(void *, std::uint64_t) noexcept { return false; }

void fault_in(void *, std::uint64_t) noexcept {} // Windows has no such request; writing faults the pages in
void fault_in_page(void *) noexcept {}
std::uint64_t faulting_ns_of_caller() noexcept { return 0; }

bool is_memory_left(std::uint64_t size) noexcept {
    MEMORYSTATUSEX now = {};
    now.dwLength = sizeof now;
    if (!GlobalMemoryStatusEx(&now)) return true;
    const std::uint64_t left = std::min<std::uint64_t>(now.ullAvailPhys, now.ullAvailPageFile);
    return size <= left - left / 16; // the values change while they are read
}

int node_of_page(const void *address) noexcept {
    PSAPI_WORKING_SET_EX_INFORMATION page = {};
    page.VirtualAddress = const_cast<void *>(address);
    if (!K32QueryWorkingSetEx(GetCurrentProcess(), &page, sizeof page) || !page.VirtualAttributes.Valid)
        return any_node;
    return static_cast<int>(page.VirtualAttributes.Node);
}

bool is_node(int node) noexcept {
    ULONG highest = 0;
    return node >= 0 && (!GetNumaHighestNodeNumber(&highest) || static_cast<ULONG>(node) <= highest);
}

} // namespace ferry
#endif
