// Finds what is slow on a machine, and what its user can do about it.
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace ferry_info {

struct advice {
    std::string finding; // a sentence
    std::string remedy;  // a sentence
};

// The most severe first. Empty if nothing was found.
std::vector<advice> advise(const machine &machine);

// The origin and age of a device's profile: "built in, …" or "gpu.profile, 12 days old".
std::string profile_source(const device &device);

} // namespace ferry_info
