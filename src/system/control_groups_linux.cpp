#if defined(__linux__)
#include "system/control_groups.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace ferry {

namespace {

// Reads a file line by line and skips lines that exceed its buffer. The buffer is short because callers may have small
// stacks.
class lines_of {
public:
    explicit lines_of(const char *path) noexcept : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
    ~lines_of() {
        if (file_ >= 0) close(file_);
    }
    lines_of(const lines_of &) = delete;
    lines_of &operator=(const lines_of &) = delete;

    bool next(std::string_view &line) noexcept {
        for (;;) {
            const char *const end = std::find(begin_, end_, '\n');
            if (end != end_) {
                line = {begin_, static_cast<std::size_t>(end - begin_)};
                begin_ = end + 1;
                if (!std::exchange(is_cut_, false)) return true;
                continue;
            }
            if (!fill()) {
                line = {begin_, static_cast<std::size_t>(end_ - begin_)}; // the last line has no line feed
                begin_ = end_;
                return !line.empty() && !is_cut_;
            }
        }
    }

private:
    // Reads more of the file after an incomplete line. False at the end of the file.
    bool fill() noexcept {
        if (file_ < 0) return false;
        if (begin_ == text_ && end_ == text_ + sizeof text_) {
            is_cut_ = true;
            begin_ = end_;
        }
        const std::size_t held = static_cast<std::size_t>(end_ - begin_);
        std::memmove(text_, begin_, held);
        const ssize_t length = read(file_, text_ + held, sizeof text_ - held);
        begin_ = text_;
        end_ = text_ + held + std::max<ssize_t>(length, 0);
        return length > 0;
    }

    const int file_;
    char text_[1024];
    const char *begin_ = text_, *end_ = text_;
    bool is_cut_ = false; // the start of the current line has been discarded
};

bool read_number_of_file(const char *path, const char *key, std::uint64_t &number) noexcept {
    lines_of file(path);
    const std::string_view wanted = key;
    for (std::string_view line; file.next(line);)
        if (line.substr(0, wanted.size()) == wanted) {
            const char *const digits = line.data() + wanted.size();
            return std::from_chars(digits, line.data() + line.size(), number).ec == std::errc();
        }
    return false;
}

// Calls limit_in(version, group, read) for the process's group of each version. Returns the smaller limit.
using limit_of_group = std::uint64_t (*)(group_version, control_group &, number_reader) noexcept;
std::uint64_t smallest_limit(std::string_view controller, limit_of_group limit_in) noexcept {
    std::uint64_t smallest = UINT64_MAX;
    for (const group_version version : {group_version::v1, group_version::v2}) {
        control_group group;
        {
            group_name own;
            lines_of groups("/proc/self/cgroup");
            if (!find_own_group(
                    version, controller, [&](std::string_view &line) noexcept { return groups.next(line); }, own))
                continue;
            lines_of mounts("/proc/self/mountinfo");
            if (!find_directory(
                    version, controller, own, [&](std::string_view &line) noexcept { return mounts.next(line); },
                    group))
                continue;
        }
        const auto read = [](const char *path, const char *key, std::uint64_t &number) noexcept {
            return read_number_of_file(path, key, number);
        };
        smallest = std::min(smallest, limit_in(version, group, read));
    }
    return smallest;
}

} // namespace

std::uint64_t memory_left_in_groups() noexcept { return smallest_limit("memory", memory_left_in); }
std::uint64_t processors_of_groups() noexcept { return smallest_limit("cpu", processors_of); }

} // namespace ferry
#endif
