// The dependency on the driver: a table of entry points, filled from whatever resolver is at hand.
// The fields carry the driver's own names; an entry that is optional and missing is null.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

namespace ferry {

// With cuGetProcAddress's meaning of version: the newest variant of `name` that is not newer than `version`.
using get_proc_function = void *(*)(void *user, const char *name, int version);

struct resolver {
    get_proc_function get_proc = nullptr;
    void *user = nullptr;
};

// An older signature of a name has its version in the field's name.
struct driver_table {
#define FERRY_DRIVER_SYMBOL(need, name, version) PFN_##name##_v##version name = nullptr;
#define FERRY_DRIVER_OLDER_SYMBOL(need, name, version) PFN_##name##_v##version name##_v##version = nullptr;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// One row of the list, in the order of driver/symbols.inc.
struct driver_symbol {
    const char *name;
    int version;
    bool required;
};
inline constexpr driver_symbol driver_symbols[] = {
#define FERRY_DRIVER_SYMBOL(need, name, version) {#name, version, #need[0] == 'r'},
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};
inline constexpr int driver_symbol_count = sizeof driver_symbols / sizeof driver_symbols[0];

// Fills `table` and sets found[i] for each row of driver_symbols.
//
// Asked for a version that it does not know, an older driver may answer with the variant that it has, whose signature may
// be another: rows that are newer than the driver itself are taken for missing.
void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept;

} // namespace ferry
