#include "driver/table.h"

#include <climits>

namespace ferry {

void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept {
    int newest = INT_MAX;
    const auto get_version =
        reinterpret_cast<PFN_cuDriverGetVersion_v2020>(from.get_proc(from.user, "cuDriverGetVersion", 2020));
    if (get_version && get_version(&newest) != CUDA_SUCCESS) newest = INT_MAX;
    int row = 0;
    // A row's type is the one its version names, so the cast restores what the driver exported.
    const auto resolve = [&]<class Function>(Function &entry, const char *name, int version) noexcept {
        entry = version > newest ? nullptr : reinterpret_cast<Function>(from.get_proc(from.user, name, version));
        found[row++] = entry != nullptr;
    };
#define FERRY_DRIVER_SYMBOL(need, name, version) resolve(table.name, #name, version);
#define FERRY_DRIVER_OLDER_SYMBOL(need, name, version) resolve(table.name##_v##version, #name, version);
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
}

} // namespace ferry
