#include "driver/table.h"

#include <climits>

namespace ferry {

namespace {

struct finder {
    const resolver &from;
    int newest;
    bool *found;

    // Not inlined, because the table has more than a hundred rows.
    [[gnu::noinline]] void *operator()(const char *name, int version) noexcept {
        void *const entry = version > newest ? nullptr : from.get_proc(from.user, name, version);
        *found++ = entry != nullptr;
        return entry;
    }
};

} // namespace

void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept {
    int newest = INT_MAX;
    const auto get_version =
        reinterpret_cast<PFN_cuDriverGetVersion_v2020>(from.get_proc(from.user, "cuDriverGetVersion", 2020));
    if (get_version && get_version(&newest) != CUDA_SUCCESS) newest = INT_MAX;
    finder find = {from, newest, found};
    // A row's version determines the function type, so the cast restores the type that the driver exported.
#define FERRY_DRIVER_SYMBOL(need, name, version)                                                                       \
    table.name = reinterpret_cast<PFN_##name##_v##version>(find(#name, version));
#define FERRY_DRIVER_OLDER_SYMBOL(need, name, version)                                                                 \
    table.name##_v##version = reinterpret_cast<PFN_##name##_v##version>(find(#name, version));
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
}

} // namespace ferry
