// Declares every entry point of driver/symbols.inc in this namespace, with the signature that its row pins. A
// definition with another signature is a different overload, and the link fails.
#pragma once

#include "driver/table.h"

#include <type_traits>

namespace ferry::softdriver {

#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) std::remove_pointer_t<PFN_##name##_v##version> name;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL

} // namespace ferry::softdriver
