// The dependency on the driver: a table of entry points that any resolver can fill. The fields have the driver's names.
// A missing optional entry point is null.
#pragma once

#include <cstdint>

#include "driver/cuda_api.h"

// The type of each entry point, with CUDA's name.
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters)                                                           \
    using PFN_##name##_v##version = CUresult(CUDAAPI *) parameters;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL

namespace ferry {

// What a driver function returned, and which function it was. Converts to the driver's result.
struct call_result {
    CUresult result = CUDA_SUCCESS;
    std::int32_t call = 0; // a row of driver_symbols, counted from 1; 0 without a driver function

    constexpr operator CUresult() const noexcept { return result; }
};

// One entry point: the driver's function, and its row of driver_symbols, counted from 1.
template <std::int32_t number, class Function> struct entry_point;
template <std::int32_t number, class... Parameters> struct entry_point<number, CUresult(CUDAAPI *)(Parameters...)> {
    using function = CUresult(CUDAAPI *)(Parameters...);
    static constexpr std::int32_t row = number;
    function call = nullptr;

    call_result operator()(Parameters... arguments) const noexcept { return {call(arguments...), row}; }
    constexpr operator function() const noexcept { return call; }
    constexpr entry_point &operator=(function other) noexcept {
        call = other;
        return *this;
    }
};

// The rows of driver_symbols, counted from 1.
enum driver_row : std::int32_t {
    row_of_none,
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) row_of_##name##_v##version,
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// `version` has the same meaning as for cuGetProcAddress: returns the newest variant of `name` that is not newer than
// `version`.
using get_proc_function = void *(*)(void *user, const char *name, int version);

struct resolver {
    get_proc_function get_proc = nullptr;
    void *user = nullptr;
};

// The field of an older signature has the version as part of its name.
struct driver_table {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters)                                                           \
    entry_point<row_of_##name##_v##version, PFN_##name##_v##version> name;
#define FERRY_DRIVER_OLDER_SYMBOL(need, name, version, parameters)                                                     \
    entry_point<row_of_##name##_v##version, PFN_##name##_v##version> name##_v##version;
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
};

// One row of driver/symbols.inc. driver_symbols lists the rows in the same order.
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
// For a version that it does not know, an older driver may return its own variant, which has a different signature. So
// rows that are newer than the driver count as missing.
void resolve_table(const resolver &from, driver_table &table, bool (&found)[driver_symbol_count]) noexcept;

} // namespace ferry
