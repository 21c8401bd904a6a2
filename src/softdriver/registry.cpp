// get_proc: the software driver's cuGetProcAddress, made from the same list of symbols that the library resolves.
#include "softdriver/entry.h"
#include "softdriver/softdriver.h"

#include <cstring>

#include "driver/software_build.h"
#include "driver/table.h"

namespace ferry::softdriver {

namespace {

// Takes the function by its pinned type, so an entry point with another signature does not compile.
template <class Function> void *address_of(Function function) { return reinterpret_cast<void *>(function); }

} // namespace

const char *current_name(const char *name) noexcept {
    return std::strcmp(name, "cuGraphInstantiate") == 0 ? "cuGraphInstantiateWithFlags" : name;
}

void *get_proc(const char *name, int version) noexcept {
    static void *const functions[driver_symbol_count] = {
#define FERRY_DRIVER_SYMBOL(need, name, version, parameters) address_of<PFN_##name##_v##version>(&softdriver::name),
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
    };
    if (!name) return nullptr;
    if (!std::strcmp(name, software_driver_mark)) return const_cast<char *>(software_build);
    name = current_name(name);
    int newest = -1;
    for (int i = 0; i < driver_symbol_count; ++i) {
        const driver_symbol &one = driver_symbols[i];
        if (!std::strcmp(one.name, name) && one.version <= version &&
            (newest < 0 || one.version > driver_symbols[newest].version))
            newest = i;
    }
    return newest < 0 ? nullptr : functions[newest];
}

} // namespace ferry::softdriver
