#if defined(_WIN32)
#include "system/code_reference.h"

#include "system/windows_api.h"

namespace ferry {

namespace {

constexpr char place_in_module = 0;

} // namespace

void code_reference::take() noexcept {
    HMODULE module = nullptr;
    if (GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, &place_in_module, &module)) library_ = module;
}

void code_reference::release() const noexcept {
    if (library_) FreeLibrary(static_cast<HMODULE>(library_));
}

} // namespace ferry
#endif
