// get_proc: the software driver's cuGetProcAddress, made from the same list of symbols that the library resolves.
#include "softdriver/entry.h"
#include "softdriver/softdriver.h"

#include <cstring>

namespace ferry::softdriver {

namespace {

struct implemented {
    const char *name;
    int version;
    void *function;
};

// Takes the function by its pinned type, so an entry point with another signature does not compile.
template <class Function> void *address_of(Function function) { return reinterpret_cast<void *>(function); }

const char software_driver_mark = 0;

} // namespace

void *get_proc(const char *name, int version) noexcept {
    static const implemented all[] = {
#define FERRY_DRIVER_SYMBOL(need, name, version)                                                                       \
    {#name, version, address_of<PFN_##name##_v##version>(&softdriver::name)},
#include "driver/symbols.inc"
#undef FERRY_DRIVER_SYMBOL
    };
    if (!name) return nullptr;
    // The library recognises this driver by this symbol.
    if (!std::strcmp(name, "ferrySoftwareDriver")) return const_cast<char *>(&software_driver_mark);
    const implemented *newest = nullptr;
    for (const implemented &one : all)
        if (!std::strcmp(one.name, name) && one.version <= version && (!newest || one.version > newest->version))
            newest = &one;
    return newest ? newest->function : nullptr;
}

} // namespace ferry::softdriver
