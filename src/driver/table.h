// The dependency on the driver: a table of entry points, filled through any resolver. The fields have the driver's own
// names. An optional entry point that is missing is null.
#pragma once

#include "driver/cuda_api.h"

// The type of each entry point, by CUDA's name.
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters)                                                           \
    using PFN_##name##_v##version = CUresult(CUDAAPI *) parameters;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL

namespace ferry {

// `version` means what it means to cuGetProcAddress: returns the newest variant of `name` that is not newer than
// `version`.
using get_proc_function = void *(*)(void *user, const char *name, int version);

struct resolver {
    get_proc_function get_proc = nullptr;
    void *user = nullptr;
};

// The field of an older signature has the version in its name.
struct driver_table {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) PFN_##name##_v##version name = nullptr;
#define FERRY_DRIVER_OLDER_SYMBOL(need, name, version, parameters) PFN_##name##_v##version name##_v##version = nullptr;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// One row of driver/symbols.inc. driver_symbols has them in the same order.
struct driver_symbol {
    const char *name;
    int version;
    bool required;
};
inline constexpr driver_symbol driver_symbols[] = {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) {#name, version, #need[0] == 'r'},
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};
inline constexpr int driver_symbol_count = sizeof driver_symbols / sizeof driver_symbols[0];

// Fills `table` and sets found[i] for each row of driver_symbols.
//
// An older driver that is asked for a version it does not know may return the variant that it has, with a different
// signature. So rows newer than the driver itself count as missing.
void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept;

} // namespace ferry
