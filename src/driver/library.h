// Opens the NVIDIA driver's library and resolves its entry points.
#pragma once

#include "driver/table.h"

namespace ferry {

class driver_library {
public:
    driver_library() noexcept = default;
    driver_library(const driver_library &) = delete;
    driver_library &operator=(const driver_library &) = delete;
    ~driver_library() { close(); }

    // Opens libcuda.so.1 or nvcuda.dll; false if the machine has none. Never opens libcuda.so, which may be the
    // toolkit's stub.
    bool open() noexcept;
    void close() noexcept;
    // Resolves through cuGetProcAddress, with whichever of its two signatures the library has. `user` is this object.
    resolver entry_points() noexcept;

private:
    void *find(const char *symbol) const noexcept;
    static void *get_proc(void *self, const char *name, int version) noexcept;

    void *handle_ = nullptr;
    PFN_cuGetProcAddress_v12000 get_proc_12_ = nullptr;
    PFN_cuGetProcAddress_v11030 get_proc_11_ = nullptr;
};

} // namespace ferry
