// Identifies a process in a form that another process on the same machine can check.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry {

struct process_identity {
    std::uint8_t machine[16];   // a hash of the machine's boot id; all zero: unknown
    std::uint64_t number;       // the process id within its namespace
    std::uint64_t start_time;   // distinguishes a later process with the same number
    std::uint64_t number_space; // the pid namespace; 0: unknown
};

process_identity own_process() noexcept;

bool is_known(const process_identity &process) noexcept;
bool is_same(const process_identity &one, const process_identity &other) noexcept;
bool is_same_machine(const process_identity &one, const process_identity &other) noexcept;

// Whether `other` has ended. False if unknown, for example for a process of another pid namespace.
bool is_gone(const process_identity &other, const process_identity &own) noexcept;

// Fills `bytes` with random bytes from the system. False if the system provides none.
bool fill_with_random_bytes(void *bytes, std::size_t size) noexcept;

} // namespace ferry
