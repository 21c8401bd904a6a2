#include "contract_queries.h"

namespace bench {

namespace {

void query_attributes(const environment &environment, std::uint64_t address, unsigned count) {
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    unsigned type = 0, is_managed = 0;
    int device = -1;
    CUdeviceptr device_address = 0, range_start = 0;
    CUmemoryPool pool = nullptr;
    std::size_t range_size = 0;
    void *values[] = {&type, &is_managed, &device, &device_address, &pool, &range_start, &range_size};
    check(environment.cu.cuPointerGetAttributes(count, attributes, values, address), "cuPointerGetAttributes");
}

} // namespace

void query_kind(const environment &environment, std::uint64_t address) { query_attributes(environment, address, 5); }

void query_range(const environment &environment, std::uint64_t address) { query_attributes(environment, address, 7); }

void query_context(const environment &environment) {
    CUcontext context = nullptr;
    check(environment.cu.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
}

void query_capture(const environment &environment, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(environment.cu.cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
}

void query_idle(const environment &environment, CUstream stream) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    unsigned flags = 0;
    check(environment.cu.cuStreamGetFlags(stream, &flags), "cuStreamGetFlags");
    check(environment.cu.cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
    const CUresult found = environment.cu.cuStreamQuery(stream);
    check(environment.cu.cuThreadExchangeStreamCaptureMode(&mode), "cuThreadExchangeStreamCaptureMode");
    if (found != CUDA_ERROR_NOT_READY) check(found, "cuStreamQuery");
}

contender with_queries(const environment &environment, const direction &direction, form form, std::size_t size,
                       const contender &raw) {
    contender queried = raw;
    queried.run = [&environment, of = direction, form, size, run = raw.run] {
        constexpr std::size_t sent_with_commands = 64 << 10; // by the driver's call, which then waits for no other work
        query_context(environment);
        query_kind(environment, of.source.address);
        query_kind(environment, of.destination.address);
        if (form == form::async) {
            query_capture(environment, environment.stream.get());
            if (!of.source.is_host() || size > sent_with_commands) query_idle(environment, environment.stream.get());
        }
        run();
    };
    return queried;
}

} // namespace bench
