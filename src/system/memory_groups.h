// The control groups that limit the memory of this process (cgroups(7), versions 1 and 2). A process that exceeds the
// limit of one of its groups is killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"

namespace ferry {

// A system can have both: only one of them limits memory.
enum class group_version { v1, v2 };

// No group is found whose names are longer. Callers may have small stacks.
struct group_name {
    char text[512] = "";
};

// The directory of the process's own group. Its parents, up to the mount point, are the group's parents.
struct memory_group {
    group_name directory;
    std::size_t mount_length = 0; // of the mount point, with which `directory` begins
};

// Passes on the next line of a file, without the line feed. False at the end of the file.
using line_source = function_ref<bool(std::string_view &line)>;

// Finds the process's group in the lines of /proc/self/cgroup. Pure.
bool find_own_group(group_version version, line_source lines, group_name &own) noexcept;
// Finds the group's directory from the lines of /proc/self/mountinfo. Pure. In a container, a mount may show a part of the
// hierarchy in which the process's own group has no name. The directory is then the root of the mount.
bool find_directory(group_version version, const group_name &own, line_source lines, memory_group &found) noexcept;

// Reads the number behind `key` at the beginning of a line of a file. False if there is none, as in "max".
using number_reader = function_ref<bool(const char *path, const char *key, std::uint64_t &number)>;

// Returns how many bytes `group` and its parents leave; UINT64_MAX without a limit. Pure. Inactive file cache counts as
// free. Leaves in `group` the topmost parent.
std::uint64_t memory_left_in(group_version version, memory_group &group, number_reader read) noexcept;

// The same for this process. Linux only.
std::uint64_t memory_left_in_groups() noexcept;

} // namespace ferry
