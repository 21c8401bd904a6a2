#if defined(__linux__)
#include "system/shared_library.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace ferry {

namespace {

constexpr char place_of_loader = 0;
constexpr int load_flags = RTLD_NOW | RTLD_LOCAL;

} // namespace

void *open_library(const char *name) noexcept { return dlopen(name, load_flags); }
void *open_loaded_library(const char *name) noexcept { return dlopen(name, load_flags | RTLD_NOLOAD); }

void *open_library_beside(const char *name) noexcept {
    Dl_info own = {};
    if (!dladdr(&place_of_loader, &own) || !own.dli_fname || own.dli_fname[0] != '/') return nullptr;
    // For the program itself, glibc reports argv[0], which another process has chosen.
    void *const library = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return nullptr;
    dlclose(library);
    const auto folder = static_cast<int>(std::strrchr(own.dli_fname, '/') - own.dli_fname);
    char path[4096];
    const int length = std::snprintf(path, sizeof path, "%.*s/%s", folder, own.dli_fname, name);
    return length > 0 && length < static_cast<int>(sizeof path) ? dlopen(path, load_flags) : nullptr;
}

void close_library(void *library) noexcept { dlclose(library); }
void *find_symbol(void *library, const char *name) noexcept { return dlsym(library, name); }

} // namespace ferry
#endif
