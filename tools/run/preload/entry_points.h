// The entry points of libcuda.so.1 that this library replaces, and the real functions.
#pragma once

#include <atomic>

#include "driver/table.h"

// Signatures that ferry itself does not call. Pointers to structs that only the program and the driver use are void.
using PFN_cuCtxCreate_v11040 = CUresult (*)(CUcontext *, void *, int, unsigned, CUdevice);
using PFN_cuCtxCreate_v12050 = CUresult (*)(CUcontext *, void *, unsigned, CUdevice);
using PFN_cuCtxFromGreenCtx_v12040 = CUresult (*)(CUcontext *, void *);
using PFN_cuDevicePrimaryCtxReset_v7000 = CUresult (*)(CUdevice);
using PFN_cuDevicePrimaryCtxReset_v11000 = CUresult (*)(CUdevice);

namespace ferry_run {

enum class entry : unsigned {
#define FERRY_RUN_ENTRY(symbol, name, version) symbol,
#include "entry_points.inc"
#undef FERRY_RUN_ENTRY
    count
};

// The real functions. Null until find_real() has found libcuda.so.1 in the process.
extern std::atomic<void *> real_functions[static_cast<unsigned>(entry::count)];
// Fills real_functions if libcuda.so.1 is loaded. Returns whether it is loaded.
bool find_real() noexcept;
// Returns the replacement for a function of libcuda.so.1, or the function itself if it is not replaced.
void *substitute_for(void *real) noexcept;

const char *symbol_of(entry one) noexcept;

template <entry one> struct type_of;
#define FERRY_RUN_ENTRY(symbol, name, version)                                                                         \
    template <> struct type_of<entry::symbol> { using type = PFN_##name##_v##version; };
#include "entry_points.inc"
#undef FERRY_RUN_ENTRY

// Returns the next definition after this library if libcuda.so.1 is not loaded, such as a program's own stub. Null if
// there is no other definition.
void *find_next(entry one) noexcept;

template <entry one, class... Arguments> CUresult call_real(Arguments... arguments) {
    std::atomic<void *> &known = real_functions[static_cast<unsigned>(one)];
    void *function = known.load(std::memory_order_acquire);
    if (!function) function = find_real() ? known.load(std::memory_order_acquire) : find_next(one);
    return function ? reinterpret_cast<typename type_of<one>::type>(function)(arguments...)
                    : CUDA_ERROR_NOT_INITIALIZED;
}

// Looks up a driver function like cuGetProcAddress, in its variant for the legacy default stream. Null if the driver
// does not have it. ferry receives this function as ferry_options.get_proc.
void *find_driver_function(void *user, const char *name, int version) noexcept;

} // namespace ferry_run
