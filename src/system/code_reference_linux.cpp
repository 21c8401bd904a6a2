#if defined(__linux__)
#include "system/code_reference.h"

#include <dlfcn.h>

namespace ferry {

namespace {

constexpr char place_in_library = 0;

} // namespace

void code_reference::take() noexcept {
    Dl_info found = {};
    if (dladdr(&place_in_library, &found) && found.dli_fname)
        library_ = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void code_reference::release() const noexcept {
    if (library_) dlclose(library_);
}

} // namespace ferry
#endif
