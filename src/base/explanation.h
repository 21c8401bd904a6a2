// What a copy would do, as one readable line.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

// The line of ferry_explanation_format; driver_call must end with zero.
std::uint64_t format_explanation(const ferry_explanation &told, char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
