#if defined(__linux__)
#include "system/address_space.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/rounding.h"
#include "system/pages.h"

namespace ferry {

namespace {

// struct procmap_query and PROCMAP_QUERY of <linux/fs.h>, since Linux 6.11. Older systems reject the request.
struct mapping_query {
    std::uint64_t size = sizeof(mapping_query);
    std::uint64_t flags = 0; // 0: the mapping that contains `address`
    std::uint64_t address = 0;
    std::uint64_t first = 0, end = 0, access = 0, page_size = 0, offset = 0, inode = 0;
    std::uint32_t device_major = 0, device_minor = 0, name_size = 0, build_id_size = 0;
    std::uint64_t name = 0, build_id = 0;
};
static_assert(sizeof(mapping_query) == 104);

constexpr unsigned long query_mapping = _IOWR('f', 17, mapping_query);
constexpr std::uint64_t readable = 1, writable = 2, shared = 8; // bits of `access`
constexpr std::uint64_t or_next = 16;                           // bit of `flags`
constexpr std::size_t longest_name = 512;                       // a file with a longer name has an unknown size

class descriptor {
public:
    explicit descriptor(const char *path, int flags) noexcept : number_(open(path, O_RDONLY | O_CLOEXEC | flags)) {}
    ~descriptor() {
        if (number_ >= 0) close(number_);
    }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    operator int() const noexcept { return number_; }

private:
    int number_;
};

// Parses one line of /proc/self/maps, such as "7f3c-7f3d rw-s 0000 08:01 1234   /tmp/name". For a mapping below the
// requested address, parses only the address range.
bool parse(std::string_view line, mapping_query &to, std::string_view &name) noexcept {
    const char *at = line.data(), *const end = at + line.size();
    const auto number = [&](auto &value, int base) noexcept {
        const auto [next, failed] = std::from_chars(at, end, value, base);
        at = next == end ? next : next + 1; // skips the character after the number
        return failed == std::errc();
    };
    if (!number(to.first, 16) || !number(to.end, 16) || end - at < 5) return false;
    if (to.end <= to.address) return true; // below the requested address: the rest is not needed
    to.access = (at[0] == 'r' ? readable : 0) | (at[1] == 'w' ? writable : 0) | (at[3] == 's' ? shared : 0);
    at += 5;
    if (!number(to.offset, 16) || !number(to.device_major, 16) || !number(to.device_minor, 16) || !number(to.inode, 10))
        return false;
    at = std::find_if(at, end, [](char one) noexcept { return one != ' '; });
    name = {at, static_cast<std::size_t>(end - at)};
    return true;
}

// Finds a mapping in the same way as the query with `or_next`.
mapping_search search_list(mapping_query &query, char (&name)[longest_name]) noexcept {
    const descriptor list("/proc/self/maps", 0);
    if (list < 0) return mapping_search::unknown;
    char text[4 * longest_name]; // large enough for the numbers of a line and a name of the maximum length
    std::size_t held = 0;
    bool is_cut = false; // the start of the current line has been discarded
    for (;;) {
        const ssize_t more = read(list, text + held, sizeof text - held);
        if (more < 0) return mapping_search::unknown;
        if (more == 0) return mapping_search::nothing;
        held += static_cast<std::size_t>(more);
        const char *line = text;
        while (const void *const found = memchr(line, '\n', static_cast<std::size_t>(text + held - line))) {
            const auto *const end = static_cast<const char *>(found);
            std::string_view file;
            if (!is_cut && !parse({line, static_cast<std::size_t>(end - line)}, query, file))
                return mapping_search::unknown;
            if (!is_cut && query.end > query.address) {
                const bool fits = file.size() < longest_name;
                if (fits) memcpy(name, file.data(), file.size());
                name[fits ? file.size() : 0] = '\0';
                return mapping_search::found;
            }
            is_cut = false;
            line = end + 1;
        }
        held -= static_cast<std::size_t>(line - text);
        memmove(text, line, held);
        if (held < sizeof text) continue;
        std::string_view file; // empty if the name is too long: only the numbers are used
        if (!is_cut && !parse({text, held}, query, file)) return mapping_search::unknown;
        if (!is_cut && query.end > query.address) {
            name[0] = '\0';
            return mapping_search::found;
        }
        is_cut = true;
        held = 0;
    }
}

bool is_file(const struct stat &found, const mapping_query &mapping) noexcept {
    return found.st_ino == mapping.inode && major(found.st_dev) == mapping.device_major &&
           minor(found.st_dev) == mapping.device_minor;
}

bool find_named_file(const char *name, const mapping_query &mapping, struct stat &found) noexcept {
    if (name[0] != '/' || stat(name, &found) != 0 || found.st_ino != mapping.inode) return false;
    // File systems without a block device, such as overlayfs, report different device numbers for files and for
    // mappings.
    return is_file(found, mapping) || major(found.st_dev) == 0 || mapping.device_major == 0;
}

// Finds the mapped file among the open files, for files without a name.
bool find_open_file(const mapping_query &mapping, struct stat &found) noexcept {
    const descriptor folder("/proc/self/fd", O_DIRECTORY);
    struct entry { // linux_dirent64
        std::uint64_t inode;
        std::int64_t next;
        std::uint16_t size;
        std::uint8_t type;
        char name[1];
    };
    alignas(entry) char entries[1024];
    for (;;) {
        const long filled = folder < 0 ? 0 : syscall(SYS_getdents64, static_cast<int>(folder), entries, sizeof entries);
        if (filled <= 0) return false;
        for (long at = 0; at < filled;) {
            const auto *const one = reinterpret_cast<const entry *>(entries + at);
            at += one->size;
            int number = -1;
            std::from_chars(one->name, one->name + strlen(one->name), number);
            if (number >= 0 && fstat(number, &found) == 0 && is_file(found, mapping)) return true;
        }
    }
}

// Returns the end of the part that is certainly within the mapped file.
std::uint64_t sure_end_of(const mapping_query &mapping, const char *name) noexcept {
    const std::string_view text = name;
    // Anonymous shared memory and System V shared memory have a fixed size.
    if (mapping.inode == 0 || text.starts_with("/dev/zero (deleted)") || text.starts_with("/SYSV")) return mapping.end;
    struct stat file;
    if (!find_named_file(name, mapping, file) && !find_open_file(mapping, file)) return mapping.first;
    if (!S_ISREG(file.st_mode)) return mapping.end; // a device
    const auto size = round_up(static_cast<std::uint64_t>(file.st_size), page_size());
    return mapping.first + std::min(mapping.end - mapping.first, size - std::min(size, mapping.offset));
}

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

mapping_search address_space::find_from(std::uint64_t address, mapping_report &found) const noexcept {
    const int kept = errno;
    mapping_query query;
    query.address = address;
    query.flags = or_next;
    char name[longest_name] = "";
    mapping_search result = mapping_search::found;
    const int file = file_.number();
    if (file < 0 || ioctl(file, query_mapping, &query) != 0)
        result = file >= 0 && errno == ENOENT ? mapping_search::nothing : search_list(query, name);
    else if (query.inode != 0) {
        query.name = reinterpret_cast<std::uintptr_t>(name);
        query.name_size = sizeof name;
        if (ioctl(file, query_mapping, &query) != 0) name[0] = '\0'; // name too long, or the mapping has gone
    }
    if (result == mapping_search::found) {
        found.first = query.first;
        found.end = query.end;
        found.is_readable = query.access & (readable | writable); // on all processors, writable memory is readable
        found.is_writable = query.access & writable;
        found.is_anonymous = query.inode == 0 && !(query.access & shared);
        found.sure_end = sure_end_of(query, name);
    }
    errno = kept;
    return result;
}

} // namespace ferry
#endif
