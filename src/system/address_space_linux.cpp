#if defined(__linux__)
#include "system/address_space.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace ferry {

namespace {

// struct procmap_query and PROCMAP_QUERY of <linux/fs.h>, from Linux 6.11 on. Older systems refuse the request.
struct mapping_query {
    std::uint64_t size = sizeof(mapping_query);
    std::uint64_t flags = 0; // 0: the mapping that holds `address`
    std::uint64_t address = 0;
    std::uint64_t first = 0, end = 0, access = 0, page_size = 0, offset = 0, inode = 0;
    std::uint32_t device_major = 0, device_minor = 0, name_size = 0, build_id_size = 0;
    std::uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(mapping_query) == 104);

constexpr unsigned long query_mapping = _IOWR('f', 17, mapping_query);
constexpr std::uint64_t readable = 1, writable = 2, shared = 8;

} // namespace

void address_space::open() noexcept {
    const int kept = errno;
    kept_descriptor opened(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    mapping_query query;
    query.address = reinterpret_cast<std::uintptr_t>(&query);
    if (ioctl(opened.number(), query_mapping, &query) == 0) file_ = std::move(opened);
    errno = kept;
}

bool address_space::find_readable(std::uint64_t address, host_mapping &found) const noexcept {
    if (file_.number() < 0) return false;
    mapping_query query;
    query.address = address;
    const int kept = errno;
    const bool is_mapped = ioctl(file_.number(), query_mapping, &query) == 0;
    errno = kept;
    if (!is_mapped || !(query.access & readable)) return false;
    found = {query.first, query.end, query.inode == 0 && (query.access & (writable | shared)) == writable};
    return true;
}

} // namespace ferry
#endif
