// The functions that this library exports instead of libcuda.so.1.
#pragma once

#include <type_traits>

#include "entry_points.h"

// Combines several arguments into one macro argument: FERRY_RUN_LIST (one, other)
#define FERRY_RUN_LIST(...) __VA_ARGS__
#define FERRY_RUN_EXPORTED extern "C" __attribute__((visibility("default"))) CUresult

#define FERRY_RUN_ENTRY(symbol, name, version)                                                                         \
    extern "C" std::remove_pointer_t<PFN_##name##_v##version> symbol __attribute__((visibility("default")));
#include "entry_points.inc"
#undef FERRY_RUN_ENTRY
