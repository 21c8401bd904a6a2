// pool-alloc: stream-ordered allocation of device memory from the driver's pools.
#include "case.h"
#include "ferry/ferry_memory.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pool_alloc {
namespace {

// Consecutive pairs of calls, without waiting for the stream. Fewer for cuMemAlloc and cuMemFree, which wait
// themselves.
constexpr int burst_length = 100, slow_burst_length = 5;
constexpr double target = 1 / 1.05;

// The pool keeps freed memory while this object exists.
class keeping_pool {
public:
    keeping_pool(const ferry::driver_table &cu, CUmemoryPool pool) : cu_(cu), pool_(pool) {
        check(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before_), "cuMemPoolGetAttribute");
        cuuint64_t all = ~cuuint64_t{0};
        check(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all), "cuMemPoolSetAttribute");
    }
    ~keeping_pool() {
        cu_.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before_);
        cu_.cuMemPoolTrimTo(pool_, 0);
    }
    keeping_pool(const keeping_pool &) = delete;

private:
    const ferry::driver_table &cu_;
    const CUmemoryPool pool_;
    cuuint64_t before_ = 0;
};

CUmemoryPool current_pool(const environment &environment) {
    CUmemoryPool pool = nullptr;
    check(environment.cu.cuDeviceGetMemPool(&pool, environment.context.retained.get()), "cuDeviceGetMemPool");
    return pool;
}

// Without `pool`, allocates from the current pool of the stream's device.
contender by_driver(const environment &environment, CUmemoryPool pool, std::size_t size) {
    return burst(
        pool ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync", burst_length,
        [&cu = environment.cu, stream = environment.stream.get(), pool, size] {
            CUdeviceptr address = 0;
            if (pool)
                check(cu.cuMemAllocFromPoolAsync(&address, size, pool, stream), "cuMemAllocFromPoolAsync");
            else
                check(cu.cuMemAllocAsync(&address, size, stream), "cuMemAllocAsync");
            check(cu.cuMemFreeAsync(address, stream), "cuMemFreeAsync");
        },
        [&environment] { drain(environment); });
}

contender by_ferry(const environment &environment, CUmemoryPool pool, std::size_t size) {
    return burst(
        pool ? "ferry_pool_alloc_async" : "ferry_device_alloc_async", burst_length,
        [ferry = environment.basic.get(), stream = environment.stream.get(), pool, size] {
            std::uint64_t address = 0;
            if (pool)
                check(ferry_pool_alloc_async(ferry, pool, size, stream, &address, nullptr), "ferry_pool_alloc_async",
                      {});
            else
                check(ferry_device_alloc_async(ferry, FERRY_DEVICE_UNKNOWN, size, stream, &address, nullptr),
                      "ferry_device_alloc_async", {});
            check(ferry_device_free_async(ferry, address, stream, nullptr), "ferry_device_free_async", {});
        },
        [&environment] { drain(environment); });
}

contender without_stream(const environment &environment, std::size_t size) {
    return burst("cuMemAlloc", slow_burst_length, [&cu = environment.cu, size] {
        CUdeviceptr address = 0;
        check(cu.cuMemAlloc(&address, size), "cuMemAlloc");
        check(cu.cuMemFree(address), "cuMemFree");
    });
}

void measure_size(session &session, CUmemoryPool own_pool, std::size_t size, row_list &rows) {
    session.progress.show("pool-alloc", "", size);
    const environment &environment = session.environment;
    std::vector<contender> contenders = {without_stream(environment, size)};
    for (const CUmemoryPool pool : {CUmemoryPool{}, own_pool}) {
        contenders.push_back(by_driver(environment, pool, size));
        contenders.push_back(by_ferry(environment, pool, size));
    }
    const effort effort = session.is_quick ? bench::effort{8, 200, 0.2e9} : bench::effort{20, 2000, 2e9};
    const std::vector<samples> taken = interleave(contenders, effort);
    for (const bool is_own : {false, true})
        rows.push_back({.labels = {is_own ? "made by ferry" : "the device's"},
                        .bytes = size,
                        .times = compare(taken[is_own ? 3 : 1], taken[is_own ? 4 : 2]),
                        .target = target,
                        .reference_ns = summarise(taken[0])});
}

case_result run_pool_alloc(session &session) {
    const environment &environment = session.environment;
    if (!environment.device_info.memory_pools) return skipped("this device has no memory pools");
    ferry_instance *const ferry = environment.basic.get();
    auto desc = sized<ferry_pool_desc>();
    desc.index = environment.device;
    CUmemoryPool created = nullptr;
    auto error = sized<ferry_error_info>();
    const std::int32_t status = ferry_pool_create(ferry, &desc, &created, &error);
    if (!is_supported(status, "ferry_pool_create", error))
        return skipped("this driver or this build of ferry has no memory pools");
    const owned<CUmemoryPool> own_pool = {created,
                                          [ferry](CUmemoryPool pool) { ferry_pool_destroy(ferry, pool, nullptr); }};
    environment.need({"cuMemAllocAsync", "cuMemFreeAsync", "cuMemAllocFromPoolAsync", "cuMemPoolGetAttribute",
                      "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuDeviceGetMemPool"});
    const keeping_pool keeping[] = {{environment.cu, current_pool(environment)}, {environment.cu, own_pool.get()}};

    case_result result = session.begin(
        {.note = "a sample is 100 pairs of calls on a stream, without waiting; the pools keep freed memory\n"
                 "(release threshold); raw: cuMemAllocAsync or, from a created pool, cuMemAllocFromPoolAsync, and "
                 "cuMemFreeAsync;\nferry: ferry_device_alloc_async or ferry_pool_alloc_async, and "
                 "ferry_device_free_async; no stream: cuMemAlloc and cuMemFree",
         .label_columns = {"pool"},
         .reference_column = "no stream"});
    for (const std::size_t size : {64, 1 << 20, 64 << 20})
        measure_size(session, own_pool.get(), size, result.rows);
    return result;
}

} // namespace
} // namespace of_pool_alloc

const bench_case pool_alloc_case = {"pool-alloc",
                                    "stream-ordered device memory, 64 B to 64 MiB: allocation and release",
                                    of_pool_alloc::run_pool_alloc};

} // namespace bench
