// Finds functions of the driver in each way that programs do, and prints which library each is of. No test runs it by
// itself: ferry_run_test.py compares what it prints with and without ferry-run.
#include <cstdio>
#include <cstring>
#include <initializer_list>

#include <dlfcn.h>

#include "driver/table.h"

namespace {

const char *library_of(void *function) {
    Dl_info found;
    if (!function) return "nothing";
    if (!dladdr(function, &found) || !found.dli_fname) return "?";
    const char *const slash = std::strrchr(found.dli_fname, '/');
    return slash ? slash + 1 : found.dli_fname;
}

void told(const char *way, const char *name, void *function) {
    std::printf("%s %s: %s\n", way, name, library_of(function));
}

} // namespace

#if defined(__x86_64__)
// The version that programs for glibc before 2.34 request.
extern "C" void *old_dlsym(void *, const char *);
extern "C" void *old_dlvsym(void *, const char *, const char *);
asm(".symver old_dlsym, dlsym@GLIBC_2.2.5\n.symver old_dlvsym, dlvsym@GLIBC_2.2.5");
#else
#define old_dlsym dlsym
#define old_dlvsym dlvsym
#endif

int main(int, char **arguments) {
    void *const process = dlopen(nullptr, RTLD_NOW);
    const auto look = [&](const char *when) {
        told(when, "cuMemcpyHtoD_v2", dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2"));
        told(when, "cuMemcpyHtoD_v2", dlsym(RTLD_NEXT, "cuMemcpyHtoD_v2"));
        told(when, "cuMemcpyHtoD_v2", dlsym(process, "cuMemcpyHtoD_v2"));
    };
    look("before the driver");
    if (arguments[1] && arguments[2]) {
        void *const linked = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
        const auto find =
            linked ? reinterpret_cast<void *(*)(const char *)>(dlsym(linked, "find_by_default")) : nullptr;
        told("from a library that is linked to the driver", "cuMemcpyHtoD_v2",
             find ? find("cuMemcpyHtoD_v2") : nullptr);
        told("from a library that is linked to the driver", "cuNoSuchThing", find ? find("cuNoSuchThing") : nullptr);
        told("from the program all the same", "cuMemcpyHtoD_v2", dlsym(RTLD_DEFAULT, "cuMemcpyHtoD_v2"));
    }
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return 77;
    for (const char *name : {"cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2_ptsz", "cuMemHostAlloc", "cuMemAlloc_v2",
                             "cuMemcpyNoSuchThing", "cuGetProcAddress", "cuGetProcAddress_v2"}) {
        told("dlsym", name, dlsym(driver, name));
        told("dlsym of 2.2.5", name, old_dlsym(driver, name));
    }
    look("from the process, the driver being local");
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    look("from the process");
    told("dlsym", "puts", dlsym(RTLD_DEFAULT, "puts"));
    told("dlsym", "dlsym", dlsym(RTLD_NEXT, "puts"));
    std::printf("dlvsym %d %d\n", dlvsym(RTLD_DEFAULT, "puts", "GLIBC_2.2.5") == dlsym(RTLD_DEFAULT, "puts"),
                old_dlvsym(driver, "cuMemcpyHtoD_v2", "NO_SUCH_VERSION") == nullptr);
    // libc's own look-ups, as interposers find them
    void *const c_library = dlopen("libc.so.6", RTLD_NOW);
    void *found = c_library ? dlsym(c_library, "dlsym") : nullptr;
    for (const char *version : {"none", "GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
        const auto look_up = reinterpret_cast<void *(*)(void *, const char *)>(found);
        if (look_up) told("libc's dlsym", "cuMemcpyHtoD_v2", look_up(driver, "cuMemcpyHtoD_v2"));
        found = dlvsym(RTLD_DEFAULT, "dlsym", version);
    }
    dlerror();
    dlsym(driver, "cuMemcpyNoSuchThing");
    std::printf("dlerror %s\n", dlerror() ? "reports" : "is silent");

    const auto get = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(driver, "cuGetProcAddress_v2"));
    const auto get_11 = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(driver, "cuGetProcAddress"));
    void *function = nullptr;
    for (const cuuint64_t flags :
         {cuuint64_t{CU_GET_PROC_ADDRESS_DEFAULT}, cuuint64_t{CU_GET_PROC_ADDRESS_LEGACY_STREAM},
          cuuint64_t{CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}})
        for (const int version : {3020, 12000, 12080, 13000})
            for (const char *name : {"cuMemcpyHtoDAsync", "cuMemcpyBatchAsync", "cuMemAlloc", "cuGetProcAddress"}) {
                CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
                const CUresult result = get(name, &function, version, flags, &found);
                const bool is_found = result == CUDA_SUCCESS && function;
                std::printf("%s %d %d result %d status %d: %s\n", name, version, static_cast<int>(flags), result,
                            is_found ? 0 : static_cast<int>(found), library_of(is_found ? function : nullptr));
            }
    told("cuGetProcAddress of 11.3", "cuMemcpyDtoH",
         get_11("cuMemcpyDtoH", &function, 11030, CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS ? function : nullptr);
    // A plugin that sees its own libraries first
    if (!arguments[1]) return 0;
    void *const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND);
    const auto run = plugin ? reinterpret_cast<int (*)()>(dlsym(plugin, "copy_in_plugin")) : nullptr;
    std::printf("plugin %d\n", run ? run() : -1);
    dlclose(driver);
    return 0;
}
