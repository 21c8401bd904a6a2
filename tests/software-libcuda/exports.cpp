// The exported functions, under the symbols of NVIDIA's library, and cuGetProcAddress, which finds them.
//
// Compared with NVIDIA's library of CUDA 13.0, these are missing: signatures of older releases (such as cuMemAlloc,
// whose sizes have 32 bits), modules and linking, most queries and settings of contexts, functions and kernels, the
// nodes of graphs, virtual memory management, hints for managed memory, textures, green contexts, multicast, and the
// graphics APIs. Without cuGetExportTable and about 240 other names that it requests, the CUDA runtime reports
// cudaErrorCallRequiresNewerDriver.
#include "additions.h"

#include "softdriver/entry.h"
#include "softdriver/softdriver.h"

#include <cstring>

namespace additions = ferry::additions;
namespace softdriver = ferry::softdriver;

namespace {

CUstream own_stream(CUstream given) { return given ? given : CU_STREAM_PER_THREAD; }

} // namespace

#define FERRY_EXPORTED extern "C" __attribute__((visibility("default"))) CUresult
#define FERRY_EXPORT(symbol, name, version, parameters, call)                                                          \
    FERRY_EXPORTED symbol parameters { return call; }
#define FERRY_EXPORT_PER_THREAD(symbol, name, version, parameters, call)                                               \
    FERRY_EXPORTED symbol parameters {                                                                                 \
        const softdriver::per_thread_default_stream own;                                                               \
        return call;                                                                                                   \
    }
#include "exports.inc"
#undef FERRY_EXPORT
#undef FERRY_EXPORT_PER_THREAD

namespace ferry::additions {

namespace {

struct export_row {
    const char *name;
    int version;
    bool per_thread;
    void *function;
};

const export_row exports[] = {
#define FERRY_EXPORT(symbol, name, version, parameters, call)                                                          \
    {#name, version, false, reinterpret_cast<void *>(&::symbol)},
#define FERRY_EXPORT_PER_THREAD(symbol, name, version, parameters, call)                                               \
    {#name, version, true, reinterpret_cast<void *>(&::symbol)},
#include "exports.inc"
#undef FERRY_EXPORT
#undef FERRY_EXPORT_PER_THREAD
};

// Returns the newest row that is not newer than `version`, or null.
const export_row *find(const char *name, int version, bool per_thread) {
    const export_row *newest = nullptr;
    for (const export_row &one : exports)
        if (one.per_thread == per_thread && one.version <= version && std::strcmp(one.name, name) == 0 &&
            (!newest || one.version > newest->version))
            newest = &one;
    return newest;
}

bool is_known(const char *name) {
    for (const export_row &one : exports)
        if (std::strcmp(one.name, name) == 0) return true;
    return false;
}

} // namespace

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status) {
    int newest = 0;
    softdriver::cuDriverGetVersion(&newest);
    if (!name || !function || version < 0 || version > newest) return CUDA_ERROR_INVALID_VALUE;
    const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (!per_thread && flags != CU_GET_PROC_ADDRESS_DEFAULT && flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    name = softdriver::current_name(name);
    const export_row *found = per_thread ? find(name, version, true) : nullptr;
    if (!found) found = find(name, version, false);
    *function = found ? found->function : nullptr;
    if (status)
        *status = found            ? CU_GET_PROC_ADDRESS_SUCCESS
                  : is_known(name) ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    const CUresult result = cuGetProcAddress(name, function, version, flags, nullptr);
    return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

} // namespace ferry::additions
