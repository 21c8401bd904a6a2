// get_proc: the software driver's answer to cuGetProcAddress, from the same list that the library resolves.
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

// By way of the pinned type, so that an entry point with another signature cannot enter.
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
    // How the library tells this driver from a real one.
    if (!std::strcmp(name, "ferrySoftwareDriver")) return const_cast<char *>(&software_driver_mark);
    const implemented *newest = nullptr;
    for (const implemented &one : all)
        if (!std::strcmp(one.name, name) && one.version <= version && (!newest || one.version > newest->version))
            newest = &one;
    return newest ? newest->function : nullptr;
}

} // namespace ferry::softdriver
