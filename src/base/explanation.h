// Formats what a copy or a batch would do as one readable line.
#pragma once

#include <cstdint>

#include "ferry/ferry.h"

namespace ferry {

// Writes the line of ferry_explanation_format. `explanation.driver_call` must be null-terminated.
std::uint64_t format_explanation(const ferry_explanation &explanation, char *buffer, std::uint64_t size) noexcept;
// Writes the line of ferry_batch_explanation_format.
std::uint64_t format_explanation(const ferry_batch_explanation &explanation, char *buffer, std::uint64_t size) noexcept;

} // namespace ferry
