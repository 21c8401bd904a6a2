// Which process this is, in words that another one on the same machine can check.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry {

struct process_identity {
    std::uint8_t machine[16];   // this start of this machine; all zero: the system does not tell
    std::uint64_t number;       // the process's, within its namespace
    std::uint64_t start_time;   // tells it from a later process of the same number
    std::uint64_t number_space; // the namespace; 0: not known
};

process_identity own_process() noexcept;

bool is_known(const process_identity &process) noexcept;
bool is_same(const process_identity &one, const process_identity &other) noexcept;
bool is_same_machine(const process_identity &one, const process_identity &other) noexcept;

// As far as this process can tell: of another namespace it knows nothing.
bool is_gone(const process_identity &other, const process_identity &own) noexcept;

// Bytes that no other process has. False where the system has none to give.
bool fill_with_random_bytes(void *bytes, std::size_t size) noexcept;

} // namespace ferry
