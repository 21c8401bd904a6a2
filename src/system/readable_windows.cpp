#if defined(_WIN32)
#include "system/readable.h"

#include "system/windows_api.h"

namespace ferry {

namespace {

// Caches the region of the last address: VirtualQuery takes microseconds, and ranges are usually close together.
class readable_region {
public:
    bool contains(std::uint64_t address) noexcept {
        if (address >= begin_ && address < end_) return is_readable_;
        MEMORY_BASIC_INFORMATION region;
        if (!VirtualQuery(reinterpret_cast<void *>(address), &region, sizeof region)) return false;
        begin_ = reinterpret_cast<std::uintptr_t>(region.BaseAddress);
        end_ = begin_ + region.RegionSize;
        constexpr DWORD unreadable = PAGE_NOACCESS | PAGE_GUARD | PAGE_EXECUTE;
        is_readable_ = region.State == MEM_COMMIT && !(region.Protect & unreadable);
        return is_readable_;
    }

private:
    std::uint64_t begin_ = 0, end_ = 0;
    bool is_readable_ = false;
};

} // namespace

bool host_range_is_readable(std::uint64_t first, std::uint64_t last) noexcept {
    readable_region region;
    return region.contains(first) && region.contains(last);
}

bool host_ranges_are_readable(const address_space &, std::size_t count,
                              function_ref<address_span(std::size_t)> range) noexcept {
    readable_region region;
    for (std::size_t i = 0; i < count; ++i) {
        const address_span one = range(i);
        if (!region.contains(one.first) || !region.contains(one.last)) return false;
    }
    return true;
}

} // namespace ferry
#endif
