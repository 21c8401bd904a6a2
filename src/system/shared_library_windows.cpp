#if defined(_WIN32)
#include "system/shared_library.h"

#include "system/windows_api.h"

namespace ferry {

namespace {

constexpr char place_of_loader = 0;

} // namespace

void *open_system_library(const char *name) noexcept {
    return LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

void *open_library(const char *name) noexcept {
    return LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

void *open_loaded_library(const char *name) noexcept {
    HMODULE module = nullptr;
    return GetModuleHandleExA(0, name, &module) ? module : nullptr;
}

void *open_library_beside(const char *name) noexcept {
    HMODULE own = nullptr;
    constexpr DWORD flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
    if (!GetModuleHandleExA(flags, &place_of_loader, &own)) return nullptr;
    // In UTF-16, because the folder may have a name that the system's code page lacks.
    constexpr DWORD room = 1024;
    wchar_t path[room];
    DWORD length = GetModuleFileNameW(own, path, room);
    if (length == 0 || length == room) return nullptr;
    while (length && path[length - 1] != L'\\')
        --length;
    for (; *name && length + 1 < room; ++name)
        path[length++] = static_cast<wchar_t>(*name);
    if (*name) return nullptr;
    path[length] = L'\0';
    return LoadLibraryExW(path, nullptr, LOAD_WITH_ALTERED_SEARCH_PATH);
}

void close_library(void *library) noexcept { FreeLibrary(static_cast<HMODULE>(library)); }
void *find_symbol(void *library, const char *name) noexcept {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

} // namespace ferry
#endif
