// Calls every function of the software libcuda.so.1 before cuInit, and looks every one up by cuGetProcAddress.
#include "additions.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

#define FERRY_EXPORT(symbol, name, version, parameters, call) extern "C" CUresult symbol parameters;
#define FERRY_EXPORT_PER_THREAD FERRY_EXPORT
#include "exports.inc"
#undef FERRY_EXPORT
#undef FERRY_EXPORT_PER_THREAD

namespace {

template <class... Arguments> CUresult call_with_zeros(CUresult (*entry)(Arguments...)) {
    return entry(Arguments{}...);
}

struct exported {
    const char *symbol, *name;
    int version;
    cuuint64_t search;  // a flag of cuGetProcAddress
    CUresult (*call)(); // with zeros
};
const exported all[] = {
#define ROW(symbol, name, version, search) {#symbol, #name, version, search, [] { return call_with_zeros(&symbol); }},
#define FERRY_EXPORT(symbol, name, version, parameters, call)                                                          \
    ROW(symbol, name, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM)
#define FERRY_EXPORT_PER_THREAD(symbol, name, version, parameters, call)                                               \
    ROW(symbol, name, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
#include "exports.inc"
};

// These need no driver.
CUresult expected_before_init(const char *name) {
    for (const char *ready : {"cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress"})
        if (std::strcmp(name, ready) == 0) return CUDA_ERROR_INVALID_VALUE; // refuse null pointers
    return CUDA_ERROR_NOT_INITIALIZED;
}

} // namespace

int main() {
    int failures = 0;
    for (const exported &one : all) {
        if (std::strcmp(one.name, "cuInit") == 0) continue;
        const CUresult expected = expected_before_init(one.name), result = one.call();
        if (result != expected)
            std::printf("%s returns %d before cuInit, expected %d\n", one.symbol, result, expected), ++failures;
    }
    void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    for (const exported &one : all) {
        void *found[2] = {};
        cuGetProcAddress(one.name, &found[0], one.version, one.search);
        cuGetProcAddress_v2(one.name, &found[1], one.version, one.search, nullptr);
        for (void *const function : found)
            if (!function || function != dlsym(library, one.symbol))
                std::printf("cuGetProcAddress does not find %s\n", one.symbol), ++failures;
    }
    void *found = nullptr;
    cuGetProcAddress("cuGraphInstantiate", &found, 12000, 0);
    if (!found || found != dlsym(library, "cuGraphInstantiateWithFlags"))
        std::printf("cuGetProcAddress does not find cuGraphInstantiate\n"), ++failures;
    std::printf("%zu functions, %d failures\n", sizeof all / sizeof *all, failures);
    return failures != 0;
}
