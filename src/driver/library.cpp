#include "driver/library.h"

#include "system/windows_api.h"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

namespace ferry {

namespace {

#if defined(_WIN32)
constexpr const char *library_name = "nvcuda.dll";
void *open_library(const char *name) noexcept { return LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32); }
void *find_symbol(void *handle, const char *name) noexcept {
    return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(handle), name));
}
void close_library(void *handle) noexcept { FreeLibrary(static_cast<HMODULE>(handle)); }
#else
constexpr const char *library_name = "libcuda.so.1";
void *open_library(const char *name) noexcept { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
void *find_symbol(void *handle, const char *name) noexcept { return dlsym(handle, name); }
void close_library(void *handle) noexcept { dlclose(handle); }
#endif

} // namespace

void driver_library::close() noexcept {
    if (handle_) close_library(handle_);
    handle_ = nullptr;
}

bool driver_library::open() noexcept {
    handle_ = open_library(library_name);
    if (!handle_) return false;
    // The unversioned symbol has the signature of 11.3. _v2, introduced with 12.0, has an additional argument.
    get_proc_12_ = reinterpret_cast<PFN_cuGetProcAddress_v12000>(find("cuGetProcAddress_v2"));
    get_proc_11_ = reinterpret_cast<PFN_cuGetProcAddress_v11030>(find("cuGetProcAddress"));
    return true;
}

resolver driver_library::entry_points() noexcept { return {get_proc, this}; }

void *driver_library::find(const char *symbol) const noexcept { return find_symbol(handle_, symbol); }

void *driver_library::get_proc(void *self, const char *name, int version) noexcept {
    const auto *library = static_cast<driver_library *>(self);
    void *entry = nullptr;
    if (library->get_proc_12_) {
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        const CUresult result = library->get_proc_12_(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
        return result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS ? entry : nullptr;
    }
    if (library->get_proc_11_) {
        const CUresult result = library->get_proc_11_(name, &entry, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
        return result == CUDA_SUCCESS ? entry : nullptr;
    }
    return nullptr;
}

} // namespace ferry
