#include "system/process.h"

#include <cstring>

namespace ferry {

bool is_same_machine(const process_identity &one, const process_identity &other) noexcept {
    return std::memcmp(one.machine, other.machine, sizeof one.machine) == 0;
}

bool is_known(const process_identity &process) noexcept { return !is_same_machine(process, {}); }

bool is_same(const process_identity &one, const process_identity &other) noexcept {
    return is_same_machine(one, other) && one.number == other.number && one.start_time == other.start_time &&
           one.number_space == other.number_space;
}

} // namespace ferry
