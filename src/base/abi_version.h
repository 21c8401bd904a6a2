// FERRY_ABI_VERSION: the version at the end of the soname, as text. meson.build has the same rule.
#pragma once

#include "ferry/ferry.h"

#define FERRY_TEXT_OF(tokens) #tokens
#define FERRY_VALUE_AS_TEXT(macro) FERRY_TEXT_OF(macro)

#if FERRY_VERSION_MAJOR == 0
#define FERRY_ABI_VERSION "0." FERRY_VALUE_AS_TEXT(FERRY_VERSION_MINOR)
#else
#define FERRY_ABI_VERSION FERRY_VALUE_AS_TEXT(FERRY_VERSION_MAJOR)
#endif
