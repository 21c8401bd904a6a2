// Numbers as ferry-info writes them.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace ferry_info {

std::string bytes_text(std::uint64_t bytes);     // such as "16.0 MiB"
std::string list_text(const std::set<int> &all); // such as "0-3,8"; "unknown" if empty

} // namespace ferry_info
