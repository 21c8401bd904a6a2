// The version of the library that a tool uses, as text.
#pragma once

#include <string>

#include "ferry/ferry.h"

// Such as "0.6.0".
inline std::string ferry_version_text() {
    const int version = ferry_version();
    return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
           std::to_string(version % 100);
}

// Such as "13.0" for the driver's 13000.
inline std::string cuda_version_text(int version) {
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}
