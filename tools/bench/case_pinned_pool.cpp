// pinned-pool: allocation and release of blocks from ferry's pinned pool.
#include "case.h"
#include "ferry/ferry_memory.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pinned_pool {
namespace {

constexpr int burst_length = 100; // consecutive pairs of calls, without waiting for the stream
constexpr double max_ns = 1000;

using pool_owner = owned<ferry_pinned_pool *>;

// The calls that order a block with a stream. Any pool that reuses blocks by events makes at least these calls.
contender by_event(const environment &environment, CUevent event) {
    return burst(
        "cuEventRecord, cuEventQuery", burst_length,
        [&environment, event] {
            check(environment.cu.cuEventRecord(event, environment.stream.get()), "cuEventRecord");
            const CUresult result = environment.cu.cuEventQuery(event);
            if (result != CUDA_ERROR_NOT_READY) check(result, "cuEventQuery");
        },
        [&environment] { drain(environment); });
}

// With a stream, blocks are freed in stream order. Without a stream, they are free immediately.
contender by_pool(const environment &environment, ferry_pinned_pool *pool, std::size_t size, bool has_stream) {
    return burst(
        "ferry_pinned_pool_alloc", burst_length,
        [pool, size, has_stream, stream = environment.stream.get()] {
            void *memory = nullptr;
            check(ferry_pinned_pool_alloc(pool, size, &memory, nullptr), "ferry_pinned_pool_alloc", {});
            if (has_stream)
                check(ferry_pinned_pool_free_async(pool, memory, stream, nullptr), "ferry_pinned_pool_free_async", {});
            else
                check(ferry_pinned_pool_free(pool, memory, nullptr), "ferry_pinned_pool_free", {});
        },
        [&environment] { drain(environment); });
}

// Grows the pool to as many blocks as a burst can leave waiting for the stream, so that the steady state is measured.
void grow(ferry_pinned_pool *pool, std::size_t size) {
    void *blocks[burst_length];
    for (void *&block : blocks)
        check(ferry_pinned_pool_alloc(pool, size, &block, nullptr), "ferry_pinned_pool_alloc", {});
    for (void *block : blocks)
        check(ferry_pinned_pool_free(pool, block, nullptr), "ferry_pinned_pool_free", {});
}

void measure_size(session &session, ferry_pinned_pool *pool, CUevent event, std::size_t size, row_list &rows) {
    session.progress.show("pinned-pool", "", size);
    const environment &environment = session.environment;
    grow(pool, size);
    const contender contenders[] = {by_event(environment, event), by_pool(environment, pool, size, true),
                                    by_pool(environment, pool, size, false)};
    const effort effort = session.is_quick ? bench::effort{10, 200, 0.1e9} : bench::effort{20, 2000, 1e9};
    const std::vector<samples> taken = interleave(contenders, effort);
    for (const bool has_stream : {true, false})
        rows.push_back({.labels = {has_stream ? "free_async" : "free"},
                        .bytes = size,
                        .times = compare(taken[0], taken[has_stream ? 1 : 2]),
                        .target = std::nullopt,
                        .max_ns = max_ns});
}

case_result run_pinned_pool(session &session) {
    const environment &environment = session.environment;
    ferry_pinned_pool *created = nullptr;
    auto error = sized<ferry_error_info>();
    const std::int32_t status = ferry_pinned_pool_create(environment.basic.get(), nullptr, &created, &error);
    if (!is_supported(status, "ferry_pinned_pool_create", error))
        return skipped("this build of ferry has no pinned pools");
    const pool_owner pool = {created,
                             [](ferry_pinned_pool *pool_made) { ferry_pinned_pool_destroy(pool_made, nullptr); }};
    environment.need({"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventDestroy"});
    CUevent made = nullptr;
    check(environment.cu.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    const owned<CUevent> event = {made, environment.cu.cuEventDestroy};

    case_result result =
        session.begin({.note = "a sample is 100 pairs of calls without waiting, from a pool that has grown; ferry: "
                               "ferry_pinned_pool_alloc\nand ferry_pinned_pool_free_async or "
                               "ferry_pinned_pool_free; raw: cuEventRecord and cuEventQuery, because the driver\n"
                               "has no such pool",
                       .label_columns = {"freed by"}});
    for (const std::size_t size : {4 << 10, 64 << 10, 1 << 20})
        measure_size(session, pool.get(), event.get(), size, result.rows);
    return result;
}

} // namespace
} // namespace of_pinned_pool

const bench_case pinned_pool_case = {"pinned-pool",
                                     "allocation and release of blocks from ferry's pinned pool, 4 KiB to 1 MiB",
                                     of_pinned_pool::run_pinned_pool};

} // namespace bench
