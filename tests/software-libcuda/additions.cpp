// The entry points of additions.inc, except cuGetProcAddress: cuInit, which opens the software driver, and calls that
// the software driver's own entry points express.
#include "additions.h"

#include "softdriver/entry.h"
#include "softdriver/softdriver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <strings.h>

namespace ferry::additions {

namespace {

// Takes a decimal number from the environment. Leaves the default where the variable is not set.
bool read_number(const char *variable, std::uint32_t &number) {
    const char *const text = std::getenv(variable);
    if (!text || !*text) return true;
    char *end = nullptr;
    const unsigned long read = std::strtoul(text, &end, 10);
    number = static_cast<std::uint32_t>(read);
    if (*end == '\0' && read == number) return true;
    std::fprintf(stderr, "software libcuda: %s is '%s', which is no number\n", variable, text);
    return false;
}

CUresult open_from_environment() {
    softdriver::config asked;
    std::uint32_t devices = 2, links = 0, memory = 0;
    if (!read_number("FERRY_SOFTWARE_DEVICES", devices) ||
        !read_number("FERRY_SOFTWARE_QUEUES", asked.hardware_queues) || !read_number("FERRY_SOFTWARE_LINKS", links) ||
        !read_number("FERRY_SOFTWARE_MEMORY", memory))
        return CUDA_ERROR_INVALID_VALUE;
    asked.links = static_cast<softdriver::device_links>(links); // or lossy, which only tests have
    if (devices == 0) return CUDA_ERROR_NO_DEVICE;
    asked.devices = devices;
    asked.device_memory = memory;
    return softdriver::open(asked) == softdriver::open_result::opened ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

// Makes another context current. Null: keeps the current context.
class current_context {
public:
    explicit current_context(CUcontext context)
        : is_other_(context != nullptr), result_(is_other_ ? softdriver::cuCtxPushCurrent(context) : CUDA_SUCCESS) {}
    ~current_context() {
        if (is_other_ && result_ == CUDA_SUCCESS) softdriver::cuCtxPopCurrent(nullptr);
    }
    current_context(const current_context &) = delete;
    current_context &operator=(const current_context &) = delete;

    template <class Call> CUresult run(Call call) const { return result_ == CUDA_SUCCESS ? call() : result_; }

private:
    bool is_other_;
    CUresult result_;
};

CUresult create_context(CUcontext *context, bool has_parameters, unsigned flags, CUdevice device) {
    int count = 0;
    if (const CUresult failed = softdriver::cuDeviceGetCount(&count)) return failed;
    return has_parameters ? CUDA_ERROR_NOT_SUPPORTED : softdriver::cuCtxCreate(context, flags, device);
}

CUresult enqueue_value(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint32_t value,
                       unsigned flags) {
    CUstreamBatchMemOpParams asked = {};
    asked.waitValue.operation = type; // both kinds have the same fields
    asked.waitValue.address = address;
    asked.waitValue.value = value;
    asked.waitValue.flags = flags;
    return softdriver::cuStreamBatchMemOp(stream, 1, &asked, 0);
}

} // namespace

// The library stays loaded until the process ends, and so does the driver.
CUresult cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    static const CUresult opened = open_from_environment();
    return opened == CUDA_SUCCESS ? softdriver::cuInit(0) : opened;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id) {
    int count = 0;
    if (const CUresult failed = softdriver::cuDeviceGetCount(&count)) return failed;
    if (!device || !id) return CUDA_ERROR_INVALID_VALUE;
    for (CUdevice one = 0; one < count; ++one) {
        char own[16] = {};
        constexpr std::size_t domain = sizeof "0000:" - 1; // may be left out
        if (softdriver::cuDeviceGetPCIBusId(own, sizeof own, one) != CUDA_SUCCESS) continue;
        if (strcasecmp(id, own) != 0 && strcasecmp(id, own + domain) != 0) continue;
        *device = one;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return softdriver::cuDeviceGetUuid(uuid, device); }

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    const CUresult failed =
        softdriver::cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    return failed ? failed
                  : softdriver::cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
}

// 3020 is the version of all contexts whose sizes and addresses have 64 bits.
CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version) {
    unsigned long long id = 0;
    if (const CUresult failed = softdriver::cuCtxGetId(context, &id)) return failed;
    if (!version) return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *context, CUexecAffinityParam *parameters, int count, unsigned flags, CUdevice device) {
    return create_context(context, parameters || count, flags, device);
}
CUresult cuCtxCreate(CUcontext *context, CUctxCreateParams *parameters, unsigned flags, CUdevice device) {
    return create_context(context, parameters != nullptr, flags, device);
}

CUresult cuCtxGetDevice(CUdevice *device, CUcontext context) {
    return current_context(context).run([&] { return softdriver::cuCtxGetDevice(device); });
}
CUresult cuCtxSynchronize(CUcontext context) { return current_context(context).run(softdriver::cuCtxSynchronize); }

CUresult cuStreamGetDevice(CUstream stream, CUdevice *device) {
    CUcontext owner = nullptr;
    const CUresult failed = softdriver::cuStreamGetCtx(stream, &owner);
    return failed ? failed : cuCtxGetDevice(device, owner);
}

// No stream belongs to a green context here.
CUresult cuStreamGetCtx(CUstream stream, CUcontext *owner, CUgreenCtx *green) {
    const CUresult result = softdriver::cuStreamGetCtx(stream, owner);
    if (result == CUDA_SUCCESS && green) *green = nullptr;
    return result;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *under_way,
                                const CUgraphNode **dependencies, const CUgraphEdgeData **edges,
                                size_t *dependency_count) {
    const CUresult result =
        softdriver::cuStreamGetCaptureInfo(stream, status, id, under_way, dependencies, dependency_count);
    return result == CUDA_SUCCESS && edges && !dependencies ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return enqueue_value(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
    return enqueue_value(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    if (flags == CU_EVENT_RECORD_DEFAULT) return softdriver::cuEventRecord(event, stream);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (const CUresult failed = softdriver::cuStreamIsCapturing(stream, &status)) return failed;
    const bool is_valid = flags == CU_EVENT_RECORD_EXTERNAL && status != CU_STREAM_CAPTURE_STATUS_NONE;
    return is_valid ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    return softdriver::cuEventElapsedTime(milliseconds, start, end);
}

} // namespace ferry::additions
