// The control groups that limit memory and processor time: where they are, and what they leave.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "system/control_groups.h"
#include "system/pages.h"

namespace ferry::test {
namespace {

// Passes on a text line by line.
class lines {
public:
    explicit lines(std::string_view text) : rest_(text) {}
    bool operator()(std::string_view &line) const {
        if (rest_.empty()) return false;
        const std::size_t end = rest_.find('\n');
        line = rest_.substr(0, end);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
        return true;
    }

private:
    mutable std::string_view rest_;
};

struct layout {
    const char *name;
    const char *groups, *mounts;
    const char *v1, *v2; // the directories; null: none
    const char *mount_of_v1 = nullptr, *mount_of_v2 = nullptr;
};

constexpr layout layouts[] = {
    {"version 2", "0::/user.slice/user-1000.slice/app.scope\n",
     "24 1 0:22 / /proc rw - proc proc rw\n"
     "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
     nullptr, "/sys/fs/cgroup/user.slice/user-1000.slice/app.scope", nullptr, "/sys/fs/cgroup"},
    {"version 2 in a namespace", "0::/\n", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", nullptr,
     "/sys/fs/cgroup", nullptr, "/sys/fs/cgroup"},
    {"version 2, the namespace's root above a child of its own", "0::/payload\n",
     "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", nullptr, "/sys/fs/cgroup/payload", nullptr,
     "/sys/fs/cgroup"},
    {"version 2, mounted in the parent's namespace", "0::/\n", "30 24 0:26 /.. /groups rw - cgroup2 cgroup rw\n",
     nullptr, "/groups", nullptr, "/groups"},
    {"version 2, moved out of the namespace", "0::/../other\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
     nullptr, "/sys/fs/cgroup", nullptr, "/sys/fs/cgroup"},
    {"version 1", "5:memory:/jobs/7\n4:cpu,cpuacct:/jobs\n1:name=systemd:/init.scope\n",
     "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
     "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
     "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     "/sys/fs/cgroup/memory/jobs/7", nullptr, "/sys/fs/cgroup/memory", nullptr},
    {"version 1, two controllers in one hierarchy", "2:hugetlb,memory:/jobs\n",
     "35 31 0:32 / /cgroup/both rw shared:3 master:1 - cgroup none rw,hugetlb,memory\n", "/cgroup/both/jobs", nullptr,
     "/cgroup/both", nullptr},
    {"version 1 in the root group", "4:memory:/\n", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
     "/sys/fs/cgroup/memory", nullptr, "/sys/fs/cgroup/memory", nullptr},
    {"version 1 in a container without a namespace", "4:memory:/docker/0123/sub\n",
     "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/memory/sub",
     nullptr, "/sys/fs/cgroup/memory", nullptr},
    {"version 1, the mount shows another group with the same beginning", "4:memory:/docker/0123\n",
     "35 31 0:32 /docker/01 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "/sys/fs/cgroup/memory", nullptr,
     "/sys/fs/cgroup/memory", nullptr},
    {"version 1, several mounts", "4:memory:/docker/0123\n",
     "35 31 0:32 /docker/9 /one rw - cgroup cgroup rw,memory\n"
     "36 31 0:32 /docker/0123 /two rw - cgroup cgroup rw,memory\n"
     "37 31 0:32 /docker /three rw - cgroup cgroup rw,memory\n",
     "/three/0123", nullptr, "/three", nullptr},
    {"both versions", "4:memory:/jobs/7\n1:name=systemd:/\n0::/init.scope\n",
     "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
     "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
     "/sys/fs/cgroup/memory/jobs/7", "/sys/fs/cgroup/unified/init.scope", "/sys/fs/cgroup/memory",
     "/sys/fs/cgroup/unified"},
    {"names with spaces and colons", "4:memory:/a b:c\n",
     "35 31 0:32 /a\\040b:c /mnt/with\\040space\\134 rw - cgroup cgroup rw,memory\n", "/mnt/with space\\", nullptr,
     "/mnt/with space\\", nullptr},
    {"no mounts", "4:memory:/jobs\n0::/\n", "24 1 0:22 / /proc rw - proc proc rw\n", nullptr, nullptr},
    {"a mount without its second half", "0::/\n", "30 24 0:26 / /sys/fs/cgroup rw\n", nullptr, nullptr},
    {"no groups", "", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", nullptr, nullptr},
    {"no lines of the expected form", "memory\n\n:\n::\n4:memory\n", "\n-\n - \n30 24 0:26 / /x rw - cgroup2\n", "",
     nullptr},
};

TEST(control_groups, the_directory_of_the_group_is_found_in_every_layout) {
    for (const layout &one : layouts)
        for (const auto &[version, directory, mount] :
             {std::tuple{group_version::v1, one.v1, one.mount_of_v1}, {group_version::v2, one.v2, one.mount_of_v2}}) {
            SCOPED_TRACE(one.name);
            group_name own;
            control_group found;
            const bool is_found = find_own_group(version, "memory", lines(one.groups), own) &&
                                  find_directory(version, "memory", own, lines(one.mounts), found);
            EXPECT_EQ(is_found, directory && *directory);
            if (!is_found) continue;
            EXPECT_STREQ(found.directory.text, directory);
            EXPECT_EQ(std::string(found.directory.text, found.mount_length), mount);
        }
}

TEST(control_groups, names_that_are_too_long_are_not_found) {
    const std::string half(300, 'x'), mount = "35 31 0:32 / /" + half + " rw - cgroup2 none rw\n";
    const auto find = [&](const std::string &groups, const std::string &mounts) {
        group_name own;
        control_group found;
        return find_own_group(group_version::v2, "memory", lines(groups), own) &&
               find_directory(group_version::v2, "memory", own, lines(mounts), found);
    };
    EXPECT_TRUE(find("0::/short\n", mount));
    EXPECT_FALSE(find("0::/" + half + "\n", mount));
    EXPECT_FALSE(find("0::/" + half + half + "\n", mount));
}

using files = std::map<std::string, std::string>;

// Calls limit_in() for the group in `directory`.
template <class Limit>
std::uint64_t limit_of(const Limit &limit_in, group_version version, const char *directory, const char *mount,
                       const files &all) {
    control_group group;
    std::snprintf(group.directory.text, sizeof group.directory.text, "%s", directory);
    group.mount_length = std::string_view(mount).size();
    return limit_in(version, group, [&](const char *path, const char *key, std::uint64_t &number) {
        const auto file = all.find(path);
        if (file == all.end()) return false;
        const lines of_file(file->second);
        for (std::string_view line; of_file(line);)
            if (line.substr(0, std::strlen(key)) == key) {
                const char *const digits = line.data() + std::strlen(key);
                return std::from_chars(digits, line.data() + line.size(), number).ec == std::errc();
            }
        return false;
    });
}

TEST(control_groups, the_group_with_the_least_memory_left_counts) {
    const auto left_in = [](group_version version, const char *directory, const char *mount, const files &all) {
        return limit_of(memory_left_in, version, directory, mount, all);
    };
    const files v2 = {{"/g/a/b/memory.max", "max\n"},
                      {"/g/a/b/memory.current", "10\n"},
                      {"/g/a/memory.max", "1000\n"},
                      {"/g/a/memory.current", "700\n"},
                      {"/g/a/memory.stat", "anon 1\ninactive_file 200\n"},
                      {"/g/memory.max", "5000\n"},
                      {"/g/memory.current", "4600\n"}};
    EXPECT_EQ(left_in(group_version::v2, "/g/a/b", "/g", v2), 400u) << "of the mount's root";
    EXPECT_EQ(left_in(group_version::v2, "/g/a/b", "/g/a", v2), 500u) << "of the parent, beside inactive cache";
    EXPECT_EQ(left_in(group_version::v2, "/g/a/b", "/g/a/b", v2), UINT64_MAX);
    EXPECT_EQ(left_in(group_version::v2, "/gone", "/g", v2), UINT64_MAX);

    files v1 = {{"/m/a/memory.limit_in_bytes", "9223372036854771712\n"},
                {"/m/a/memory.usage_in_bytes", "600\n"},
                {"/m/a/memory.stat", "inactive_file 1\nhierarchical_memory_limit 2000\ntotal_inactive_file 100\n"},
                {"/m/memory.limit_in_bytes", "1000\n"},
                {"/m/memory.usage_in_bytes", "900\n"},
                {"/m/memory.use_hierarchy", "1\n"}};
    EXPECT_EQ(left_in(group_version::v1, "/m/a", "/m/a", v1), 1500u) << "the limit of a parent that is not mounted";
    EXPECT_EQ(left_in(group_version::v1, "/m/a", "/m", v1), 100u);
    v1["/m/memory.use_hierarchy"] = "0\n";
    EXPECT_EQ(left_in(group_version::v1, "/m/a", "/m", v1), 1500u) << "the parent's limit is not the child's";
    v1["/m/a/memory.usage_in_bytes"] = "3000\n";
    EXPECT_EQ(left_in(group_version::v1, "/m/a", "/m", v1), 0u) << "beyond the limit";
}

TEST(control_groups, the_smallest_quota_of_processor_time_counts) {
    const auto processors_in = [](group_version version, const char *directory, const files &all) {
        return limit_of(processors_of, version, directory, "/g", all);
    };
    const files v2 = {{"/g/a/b/cpu.max", "max 100000\n"},
                      {"/g/a/cpu.max", "250000 100000\n"},
                      {"/g/cpu.max", "1600000 200000\n"},
                      {"/g/c/cpu.max", "5000 100000\n"},
                      {"/g/odd/cpu.max", "7\n"}};
    EXPECT_EQ(processors_in(group_version::v2, "/g/a/b", v2), 3u) << "two and a half, rounded up";
    EXPECT_EQ(processors_in(group_version::v2, "/g/c", v2), 1u);
    EXPECT_EQ(processors_in(group_version::v2, "/g", v2), 8u);
    EXPECT_EQ(processors_in(group_version::v2, "/g/odd", v2), 8u) << "without a period";
    const files v1 = {{"/g/a/cpu.cfs_quota_us", "-1\n"},
                      {"/g/a/cpu.cfs_period_us", "100000\n"},
                      {"/g/cpu.cfs_quota_us", "200000\n"},
                      {"/g/cpu.cfs_period_us", "100000\n"}};
    EXPECT_EQ(processors_in(group_version::v1, "/g/a", v1), 2u);
    EXPECT_EQ(processors_in(group_version::v1, "/g/a", {}), UINT64_MAX);
}

#if defined(__linux__)

bool write_text(const std::string &path, const std::string &text) {
    const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const bool is_written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) close(file);
    return is_written;
}

// Passes on the lines of a file.
std::string text_of(const char *path) {
    std::string text;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    char part[4096];
    for (ssize_t length; file >= 0 && (length = read(file, part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(length));
    if (file >= 0) close(file);
    return text;
}

TEST(control_groups, memory_beyond_the_limit_of_the_group_is_refused) {
    constexpr std::uint64_t limit = 64 << 20;
    const std::string groups = text_of("/proc/self/cgroup"), mounts = text_of("/proc/self/mountinfo");
    std::string made;
    for (const auto &[version, file] :
         {std::pair{group_version::v1, "/memory.limit_in_bytes"}, std::pair{group_version::v2, "/memory.max"}}) {
        group_name own;
        control_group found;
        if (!find_own_group(version, "memory", lines(groups), own) ||
            !find_directory(version, "memory", own, lines(mounts), found))
            continue;
        made = std::string(found.directory.text) + "/ferry-test-" + std::to_string(getpid());
        if (mkdir(made.c_str(), 0755) != 0) continue;
        if (write_text(made + file, std::to_string(limit))) break;
        rmdir(made.c_str());
        made.clear();
    }
    if (made.empty() || access((made + "/cgroup.procs").c_str(), W_OK) != 0)
        GTEST_SKIP() << "this process may not make a control group with a limit";
    const pid_t child = fork();
    if (child == 0) {
        if (!write_text(made + "/cgroup.procs", "0\n")) _exit(2);
        const bool is_right = is_memory_left(limit / 2) && !is_memory_left(limit) && !is_memory_left(16 * limit);
        _exit(is_right ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(rmdir(made.c_str()), 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "this process may not enter a control group of its own";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

#endif

} // namespace
} // namespace ferry::test
