#if defined(_WIN32)
#include "softdriver/pages.h"

#include <new>

#include "base/rounding.h"
#include "system/pages.h"
#include "system/windows_api.h"

namespace ferry::softdriver {

namespace {

// Memory counts against the system's limit from here on, and takes pages of the machine when it is touched.
bool commit(std::uintptr_t address, std::size_t bytes) {
    return VirtualAlloc(reinterpret_cast<void *>(address), bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

} // namespace

void *map_host_pages(std::size_t bytes, bool) {
    return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void *reserve_host_pages(std::size_t bytes) { return VirtualAlloc(nullptr, bytes, MEM_RESERVE, PAGE_NOACCESS); }

bool provide_host_pages(std::uintptr_t address, std::size_t bytes) { return commit(address, bytes); }

void unmap_host_pages(void *pages, std::size_t) { VirtualFree(pages, 0, MEM_RELEASE); }

void discard_host_pages(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t page = page_size();
    const std::uintptr_t begin = (address + page - 1) & ~(page - 1), end = (address + bytes) & ~(page - 1);
    if (begin < end) VirtualAlloc(reinterpret_cast<void *>(begin), end - begin, MEM_RESET, PAGE_READWRITE);
}

bool are_mapped(std::uintptr_t address, std::size_t bytes) {
    for (const std::uintptr_t end = address + bytes; address < end;) {
        MEMORY_BASIC_INFORMATION region;
        if (!VirtualQuery(reinterpret_cast<void *>(address), &region, sizeof region) || region.State != MEM_COMMIT)
            return false;
        address = reinterpret_cast<std::uintptr_t>(region.BaseAddress) + region.RegionSize;
    }
    return true;
}

device_pages::device_pages(std::size_t bytes, std::size_t alignment)
    : bytes_(bytes), reserved_bytes_(2 * bytes + alignment) {
    reserved_ = reserve_host_pages(reserved_bytes_);
    memory_ = reinterpret_cast<std::uintptr_t>(reserve_host_pages(bytes));
    if (!reserved_ || !memory_) {
        unmap();
        throw std::bad_alloc();
    }
    begin_ = round_up(reinterpret_cast<std::uintptr_t>(reserved_), alignment);
}

device_pages::~device_pages() { unmap(); }

void device_pages::unmap() {
    if (reserved_) VirtualFree(reserved_, 0, MEM_RELEASE);
    if (memory_) VirtualFree(reinterpret_cast<void *>(memory_), 0, MEM_RELEASE);
}

bool device_pages::provide(std::uintptr_t address, std::size_t bytes) { return commit(address + distance(), bytes); }

void device_pages::discard(std::uintptr_t address, std::size_t bytes) {
    const std::uintptr_t page = page_size();
    const std::uintptr_t begin = (address + page - 1) & ~(page - 1), end = (address + bytes) & ~(page - 1);
    if (begin < end) VirtualFree(reinterpret_cast<void *>(begin + distance()), end - begin, MEM_DECOMMIT);
}

bool device_pages::map_import(std::uintptr_t, int, std::uint64_t, std::size_t) { return false; }
bool device_pages::unmap_import(std::uintptr_t, std::size_t) { return false; }

} // namespace ferry::softdriver
#endif
