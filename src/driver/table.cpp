#include "driver/table.h"

namespace ferry {

void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept {
    int row = 0;
    // A row's type is the one its version names, so the cast restores what the driver exported.
#define FERRY_DRIVER_SYMBOL(need, name, version)                                                                       \
    table.name = reinterpret_cast<PFN_##name##_v##version>(from.get_proc(from.user, #name, version));                  \
    found[row++] = table.name != nullptr;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
}

} // namespace ferry
