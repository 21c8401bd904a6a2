// What limits copies on a machine: the limits of the process and of its devices, and what the user can do about them.
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace ferry_info {

struct limit {
    std::string name, value; // what it limits, and how much
    std::string effect;      // a sentence; empty: it does no harm here
    std::string remedy;      // a sentence; empty without an effect
};

// Only what is known. Some limits have a value for each device.
std::vector<limit> find_limits(const machine &machine);

} // namespace ferry_info
