// The beginning and the end of an instance: which driver serves, and what that has.
#pragma once

#include "call/instance.h"

namespace ferry {

// The options are legal ones.
failure open_instance(const ferry_options &options, ferry_instance *&instance) noexcept;
void close_instance(ferry_instance &instance) noexcept;

// As it is now, but for the size.
ferry_report describe_instance(const ferry_instance &instance) noexcept;
// The name of one of the entry points that the driver does not have; null past the last.
const char *missing_entry_point(const ferry_instance &instance, std::uint32_t index) noexcept;

} // namespace ferry
