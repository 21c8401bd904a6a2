#if defined(_WIN32)
#include "system/address_space.h"

#include "system/windows_api.h"

namespace ferry {

// It is unknown which regions CUDA creates on Windows, so no region is reported.
void address_space::open() noexcept {}
bool address_space::find_readable(std::uint64_t, host_mapping &) const noexcept { return false; }

mapping_search address_space::find_from(std::uint64_t address, mapping_report &found) const noexcept {
    MEMORY_BASIC_INFORMATION region;
    for (;; address = found.end) {
        if (!VirtualQuery(reinterpret_cast<void *>(address), &region, sizeof region)) return mapping_search::nothing;
        found.first = reinterpret_cast<std::uintptr_t>(region.BaseAddress);
        found.sure_end = found.end = found.first + region.RegionSize; // Windows does not truncate mapped files
        if (region.State == MEM_COMMIT) break;
    }
    constexpr DWORD writable = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
    const bool is_closed = region.Protect & (PAGE_NOACCESS | PAGE_GUARD);
    found.is_writable = !is_closed && (region.Protect & writable);
    found.is_readable = !is_closed && region.Protect != PAGE_EXECUTE;
    return mapping_search::found;
}

} // namespace ferry
#endif
