#include "driver/table.h"

#include <climits>
#include <cstddef>
#include <cstring>

namespace ferry {

void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept {
    int newest = INT_MAX;
    const auto get_version =
        reinterpret_cast<PFN_cuDriverGetVersion_v2020>(from.get_proc(from.user, "cuDriverGetVersion", 2020));
    if (get_version && get_version(&newest) != CUDA_SUCCESS) newest = INT_MAX;
    // The table's fields are the functions of the rows, in the same order.
    using function = void (*)();
    static_assert(sizeof table == driver_symbol_count * sizeof(function));
    auto *field = reinterpret_cast<std::byte *>(&table);
    for (int i = 0; i < driver_symbol_count; ++i, field += sizeof(function)) {
        const driver_symbol &row = driver_symbols[i];
        void *const entry = row.version > newest ? nullptr : from.get_proc(from.user, row.name, row.version);
        found[i] = entry != nullptr;
        std::memcpy(field, &entry, sizeof entry);
    }
}

} // namespace ferry
