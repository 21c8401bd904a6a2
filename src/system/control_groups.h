// The control groups that limit the memory and the processor time of this process (cgroups(7), versions 1 and 2). The
// system kills a process that exceeds the memory of one of its groups, and stops the threads of a group that has used
// its processor time, until the next period.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"

namespace ferry {

// A system can have both versions, but only one of them limits a resource.
enum class group_version { v1, v2 };

// Groups with longer names are not found. The size is limited because callers may have small stacks.
struct group_name {
    char text[512] = "";
};

// The directory of the process's own group. Its parent directories, up to the mount point, are the group's parents.
struct control_group {
    group_name directory;
    std::size_t mount_length = 0; // the length of the mount point, with which `directory` begins
};

// Returns the next line of a file, without the line feed. False at the end of the file.
using line_source = function_ref<bool(std::string_view &line)>;

// Finds the process's group in the lines of /proc/self/cgroup. Pure. `controller` is the resource: "memory" or "cpu".
bool find_own_group(group_version version, std::string_view controller, line_source lines, group_name &own) noexcept;
// Finds the group's directory from the lines of /proc/self/mountinfo. Pure. In a container, a mount may show a part of
// the hierarchy that does not contain the process's own group. The result is then the root of the mount.
bool find_directory(group_version version, std::string_view controller, const group_name &own, line_source lines,
                    control_group &found) noexcept;

// Reads the number after `key` at the start of a line of a file. False if no number follows, as in "max".
using number_reader = function_ref<bool(const char *path, const char *key, std::uint64_t &number)>;

// Returns how many bytes remain in `group` and its parents; UINT64_MAX if there is no limit. Pure. Inactive file cache
// counts as free. On return, `group` is the topmost parent.
std::uint64_t memory_left_in(group_version version, control_group &group, number_reader read) noexcept;

// Returns the smallest CPU quota of `group` and its parents, divided by its period and rounded up: a number of
// processors, or UINT64_MAX if there is no quota. Pure. On return, `group` is the topmost parent.
std::uint64_t processors_of(group_version version, control_group &group, number_reader read) noexcept;

// The same for this process. Only available on Linux.
std::uint64_t memory_left_in_groups() noexcept;
std::uint64_t processors_of_groups() noexcept;

} // namespace ferry
