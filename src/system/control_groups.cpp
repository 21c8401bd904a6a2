#include "system/control_groups.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/rounding.h"

namespace ferry {

namespace {

// Removes the text before the next `separator` and returns it. Removes the whole text if there is no separator.
std::string_view take_until(std::string_view &text, char separator) noexcept {
    const std::size_t length = std::min(text.find(separator), text.size());
    const std::string_view taken = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    return taken;
}

bool has_word(std::string_view list, std::string_view word) noexcept {
    while (!list.empty())
        if (take_until(list, ',') == word) return true;
    return false;
}

// Parses a line of /proc/self/cgroup, such as "4:memory:/docker/0123" or "0::/user.slice".
bool names_group(std::string_view line, group_version version, std::string_view controller,
                 std::string_view &path) noexcept {
    const std::string_view number = take_until(line, ':'), controllers = take_until(line, ':');
    path = line;
    return version == group_version::v1 ? has_word(controllers, controller) : number == "0" && controllers.empty();
}

// proc_pid_mountinfo(5): spaces, tabs, line feeds and backslashes in names are written as octal numbers. Returns false
// if the name is too long.
bool decode_name(std::string_view name, group_name &to) noexcept {
    std::size_t length = 0;
    while (!name.empty() && length + 1 < sizeof to.text) {
        char one = name[0];
        std::size_t taken = 1;
        if (one == '\\' && name.size() >= 4) {
            one = static_cast<char>((name[1] - '0') << 6 | (name[2] - '0') << 3 | (name[3] - '0'));
            taken = 4;
        }
        to.text[length++] = one;
        name.remove_prefix(taken);
    }
    to.text[length] = '\0';
    return name.empty();
}

// Returns the path of a group relative to the root of a mount; false if the group is not below this root.
bool path_below(std::string_view root, std::string_view path, std::string_view &rest) noexcept {
    if (root == "/") root = "";
    if (path.substr(0, root.size()) != root) return false;
    rest = path.substr(root.size());
    if (!rest.empty() && rest[0] != '/') return false;
    if (rest == "/") rest = "";
    return rest.find("/..") == std::string_view::npos; // outside the namespace of the mount
}

// Parses a line of /proc/self/mountinfo, such as "35 31 0:32 /root /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory".
bool shows_groups(std::string_view line, group_version version, std::string_view controller, std::string_view &root,
                  std::string_view &mount_point) noexcept {
    for (int field = 1; field <= 5; ++field) {
        const std::string_view taken = take_until(line, ' ');
        if (field == 4) root = taken;
        if (field == 5) mount_point = taken;
    }
    const std::size_t separator = line.find(" - ");
    if (separator == std::string_view::npos) return false;
    line.remove_prefix(separator + 3);
    const std::string_view type = take_until(line, ' ');
    if (version == group_version::v2) return type == "cgroup2";
    take_until(line, ' ');
    return type == "cgroup" && has_word(line, controller);
}

} // namespace

bool find_own_group(group_version version, std::string_view controller, line_source lines, group_name &own) noexcept {
    std::string_view path;
    for (std::string_view line; lines(line);)
        if (names_group(line, version, controller, path)) {
            if (path.size() >= sizeof own.text) return false;
            own.text[path.copy(own.text, path.size())] = '\0';
            return true;
        }
    return false;
}

bool find_directory(group_version version, std::string_view controller, const group_name &own, line_source lines,
                    control_group &found) noexcept {
    // The mount with the shortest root shows the most parents.
    std::size_t best = SIZE_MAX;
    constexpr std::size_t without_the_group = SIZE_MAX - 1;
    std::string_view root_name, mount_name, rest;
    group_name decoded;
    for (std::string_view line; lines(line);) {
        if (!shows_groups(line, version, controller, root_name, mount_name) || !decode_name(root_name, decoded))
            continue;
        const bool is_below = path_below(decoded.text, own.text, rest);
        const std::size_t rank = is_below ? std::strlen(decoded.text) : without_the_group;
        if (rank >= best || !decode_name(mount_name, decoded)) continue;
        const std::size_t length = std::strlen(decoded.text);
        if (!is_below) rest = "";
        if (length + rest.size() >= sizeof decoded.text) continue;
        decoded.text[length + rest.copy(decoded.text + length, rest.size())] = '\0';
        found = {decoded, length};
        best = rank;
    }
    return best != SIZE_MAX;
}

namespace {

// Reads numbers of a group's files, and goes from the group to its parents.
class group_reader {
public:
    group_reader(control_group &group, number_reader read) noexcept : group_(group), read_(read) {}

    bool find(const char *file, const char *key, std::uint64_t &number) noexcept {
        std::snprintf(path_, sizeof path_, "%s/%s", group_.directory.text, file);
        return read_(path_, key, number);
    }
    // False at the mount point.
    bool go_to_parent() noexcept {
        char *const directory = group_.directory.text;
        if (std::strlen(directory) <= group_.mount_length) return false;
        *std::strrchr(directory, '/') = '\0';
        return true;
    }

private:
    control_group &group_;
    number_reader read_;
    char path_[sizeof group_.directory.text + 32];
};

} // namespace

std::uint64_t memory_left_in(group_version version, control_group &group, number_reader read) noexcept {
    const bool is_v1 = version == group_version::v1;
    std::uint64_t left = UINT64_MAX;
    group_reader of(group, read);
    for (;;) {
        std::uint64_t limit = UINT64_MAX, of_parents = 0, used = 0, cached = 0;
        of.find(is_v1 ? "memory.limit_in_bytes" : "memory.max", "", limit);
        // Version 1 also reports the smallest limit of all parents, including parents that are not mounted here.
        if (is_v1 && of.find("memory.stat", "hierarchical_memory_limit ", of_parents))
            limit = std::min(limit, of_parents);
        if (limit != UINT64_MAX && of.find(is_v1 ? "memory.usage_in_bytes" : "memory.current", "", used)) {
            of.find("memory.stat", is_v1 ? "total_inactive_file " : "inactive_file ", cached);
            used -= std::min(used, cached);
            left = std::min(left, limit - std::min(limit, used));
        }
        if (!of.go_to_parent()) return left;
        // Before Linux 5.11, a version 1 group may exclude its children from its limit.
        std::uint64_t is_parent = 1;
        if (is_v1 && of.find("memory.use_hierarchy", "", is_parent) && !is_parent) return left;
    }
}

std::uint64_t processors_of(group_version version, control_group &group, number_reader read) noexcept {
    std::uint64_t processors = UINT64_MAX;
    group_reader of(group, read);
    do {
        std::uint64_t quota = 0, period = 0; // microseconds
        bool is_limited = false;
        if (version == group_version::v1) {
            is_limited = of.find("cpu.cfs_quota_us", "", quota) && of.find("cpu.cfs_period_us", "", period);
        } else if (of.find("cpu.max", "", quota)) { // "200000 100000"
            char before_period[24];
            std::snprintf(before_period, sizeof before_period, "%llu ", static_cast<unsigned long long>(quota));
            is_limited = of.find("cpu.max", before_period, period);
        }
        if (is_limited && quota && period) processors = std::min(processors, divide_up(quota, period));
    } while (of.go_to_parent());
    return processors;
}

} // namespace ferry
