// The profiles of devices: measured, saved and loaded.
#pragma once

#include "call/instance.h"

namespace ferry {

failure measure_profile(ferry_instance &instance, std::int32_t device) noexcept;

// Of equal devices each takes it. If none does, what is told is what keeps it from the one that comes nearest.
failure load_profile(ferry_instance &instance, const char *text, std::uint64_t size) noexcept;

// `needed`, which may be null, counts the final zero.
failure save_profile(const ferry_instance &instance, std::int32_t device, char *buffer, std::uint64_t size,
                     std::uint64_t *needed) noexcept;

} // namespace ferry
