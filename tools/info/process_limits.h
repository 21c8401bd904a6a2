// The limits that the system sets for this process, and where its memory and threads may be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace ferry_info {

// Empty: unknown, or no limit, as the field says.
struct process_limits {
    bool are_known = false;                     // on Linux
    std::optional<std::uint64_t> locked_memory; // bytes; empty: no limit
    std::optional<std::uint64_t> address_space; // bytes; empty: no limit
    std::optional<std::uint64_t> group_left;    // bytes that the memory control groups leave; empty: no limit
    std::map<int, std::set<int>> nodes;         // the processors of each NUMA node; empty: unknown
    std::set<int> processors;                   // on which the process may run; empty: unknown
    std::set<int> memory_nodes;                 // whose memory the process may use; empty: unknown
    std::string huge_pages;                     // "always", "madvise" or "never"; empty: unknown
    bool has_mps_daemon = false;                // of the multi-process service
    std::string mps_threads;                    // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
    std::string mps_memory;                     // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT
};

// Parses a list such as "0-3,8".
std::set<int> parse_list(const std::string &text);

// `root`: the directory under which proc and sys are, "/" except in tests. What cannot be read stays empty.
void read_placement(const std::filesystem::path &root, process_limits &found);

} // namespace ferry_info
