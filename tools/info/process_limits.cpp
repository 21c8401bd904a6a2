#include "process_limits.h"

#include <fstream>
#include <sstream>

namespace ferry_info {

namespace {

namespace fs = std::filesystem;

std::string read_line(const fs::path &path) {
    std::string line;
    std::getline(std::ifstream(path), line);
    return line;
}

// The text after `key` in the lines of a file, without leading blanks. Empty if there is none.
std::string read_value(const fs::path &path, const std::string &key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.compare(0, key.size(), key) == 0) {
            const std::size_t begin = line.find_first_not_of(" \t", key.size());
            return begin == std::string::npos ? "" : line.substr(begin);
        }
    return "";
}

// The choice in a list such as "always [madvise] never".
std::string chosen_of(const std::string &list) {
    const std::size_t begin = list.find('['), end = list.find(']');
    return begin < end && end != std::string::npos ? list.substr(begin + 1, end - begin - 1) : "";
}

} // namespace

std::set<int> parse_list(const std::string &text) {
    std::set<int> numbers;
    std::istringstream list(text);
    for (std::string range; std::getline(list, range, ',');) {
        int first = 0, last = 0;
        char dash = 0;
        std::istringstream ends(range);
        if (!(ends >> first)) continue;
        if (!(ends >> dash >> last) || dash != '-') last = first;
        for (int number = first; number <= last; ++number)
            numbers.insert(number);
    }
    return numbers;
}

void read_placement(const fs::path &root, process_limits &found) {
    const fs::path nodes = root / "sys/devices/system/node", status = root / "proc/self/status";
    for (const int node : parse_list(read_line(nodes / "online")))
        found.nodes[node] = parse_list(read_line(nodes / ("node" + std::to_string(node)) / "cpulist"));
    found.processors = parse_list(read_value(status, "Cpus_allowed_list:"));
    found.memory_nodes = parse_list(read_value(status, "Mems_allowed_list:"));
    found.huge_pages = chosen_of(read_line(root / "sys/kernel/mm/transparent_hugepage/enabled"));
}

} // namespace ferry_info
