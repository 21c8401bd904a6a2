#include "driver/library.h"

#include "system/shared_library.h"

namespace ferry {

void driver_library::close() noexcept {
    if (handle_) close_library(handle_);
    handle_ = nullptr;
}

bool driver_library::open() noexcept {
#if defined(_WIN32)
    handle_ = open_system_library("nvcuda.dll");
#else
    handle_ = open_library("libcuda.so.1");
#endif
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
