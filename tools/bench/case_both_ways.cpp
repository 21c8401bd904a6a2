// both-ways: one large copy to the device and one large copy from it at the same time, on two streams.
#include <algorithm>

#include "contest.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_both_ways {
namespace {

// Three ways to enqueue one of the copies.
auto by_line(const environment &environment, const direction &direction, std::size_t size) {
    return [&, size](CUstream stream) { raw_copy_async(environment, direction, size, stream); };
}
auto by_raw_descriptor(const environment &environment, const direction &direction, std::size_t size) {
    return [&environment, copy = lower(line(direction, size))](CUstream stream) {
        check(environment.cu.cuMemcpy3DAsync(&copy, stream), "cuMemcpy3DAsync");
    };
}
auto by_ferry(const environment &environment, const direction &direction, std::size_t size) {
    return [&environment, copy = describe(line(direction, size))](CUstream stream) {
        ferry_copy_async_checked(environment.basic.get(), copy, stream);
    };
}

struct exchange {
    direction up, down;
    CUstream up_stream, down_stream;
};

// Enqueues both copies, then waits for both.
template <typename Way>
contender both(const char *name, const environment &environment, const exchange &exchange, std::size_t size, Way by) {
    return {name, [&, up = by(environment, exchange.up, size), down = by(environment, exchange.down, size)] {
                up(exchange.up_stream);
                down(exchange.down_stream);
                for (const CUstream stream : {exchange.up_stream, exchange.down_stream})
                    check(environment.cu.cuStreamSynchronize(stream), "cuStreamSynchronize");
            }};
}

row measure_size(session &session, const exchange &exchange, std::size_t size) {
    const environment &environment = session.environment;
    const contender raw[] = {both("cuMemcpy*Async", environment, exchange, size, by_line),
                             both("cuMemcpy3DAsync", environment, exchange, size, by_raw_descriptor)};
    const contender ferry = both("ferry_copy_async", environment, exchange, size, by_ferry);
    const double ceiling = ceiling_of("H2D", session.ceilings) + ceiling_of("D2H", session.ceilings);
    return measure_beside_fastest(
        session, {{"H2D + D2H"}, {line(exchange.up, size), line(exchange.down, size)}, ceiling}, raw, ferry);
}

case_result run_both_ways(session &session) {
    case_result result = session.begin(
        {.note = joined({"sizes and GB/s cover both copies; the ceiling is the sum of the ceilings of both "
                         "directions; host memory is pinned;\ncuMemcpy*Async is one cuMemcpyHtoDAsync and one "
                         "cuMemcpyDtoHAsync;\n",
                         contest_note}),
         .label_columns = {"copies", raw_call_column}});
    workspace &workspace = session.workspace;
    const owned<CUstream> second = make_stream(session.environment);
    const owned<void *> memory = allocate_pinned(session.environment, workspace.largest);
    const exchange exchange = {{"H2D", workspace.pinned, workspace.device_destination},
                               {"D2H", workspace.device_source, host_buffer(memory::pinned, memory.get())},
                               session.environment.stream.get(),
                               second.get()};
    for (std::size_t size = std::min<std::size_t>(16 << 20, workspace.largest); size <= workspace.largest; size *= 4) {
        session.progress.show("both-ways", "H2D + D2H", 2 * size);
        result.rows.push_back(measure_size(session, exchange, size));
    }
    return result;
}

} // namespace
} // namespace of_both_ways

const bench_case both_ways_case = {"both-ways", "16 MiB to 1 GiB in both directions at the same time",
                                   of_both_ways::run_both_ways};

} // namespace bench
