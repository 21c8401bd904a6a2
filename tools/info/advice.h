// What is slow on a machine, and what its user can do about that.
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace ferry_info {

struct advice {
    std::string finding; // a sentence
    std::string remedy;  // a sentence
};

// The gravest first. Empty if nothing was found.
std::vector<advice> advise(const machine &machine);

// Where the profile of a device comes from and how old it is: "built in, …" or "gpu.profile, 12 days old".
std::string profile_source(const device &device);

} // namespace ferry_info
