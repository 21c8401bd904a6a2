// pageable-busy, pageable-busy-gpu and pageable-cold: pageable copies while other processes compute on all processors,
// while kernels fill the device, and after a sleep. Each asynchronous copy is enqueued and then waited for by
// cuStreamSynchronize, as most programs do.
#include <chrono>
#include <thread>

#include "beside.h"
#include "case.h"
#include "contract_queries.h"
#include "lines.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_pageable_busy {
namespace {

constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;

effort effort_of(const session &session, std::size_t size) {
    if (session.is_quick) return {3, 40, 0.05e9};
    return {10, 200, size > 64 * MiB ? 1.5e9 : 0.6e9};
}

// Runs the contest concurrently with an object that exists only during the contest.
template <class Beside>
std::vector<samples> interleave_beside(const environment &environment, std::span<const contender> both,
                                       const effort &effort) {
    const Beside beside(environment);
    return interleave(both, effort);
}
std::vector<samples> interleave_alone(const environment &, std::span<const contender> both, const effort &effort) {
    return interleave(both, effort);
}

// The maximum time of ferry as a multiple of the driver's time.
double most_of(std::size_t size, double small) { return size <= MiB ? small : 1.0; }

void measure_sizes(session &session, const std::string &beside, std::span<const std::size_t> sizes, double small,
                   case_result &result, decltype(&interleave_alone) contest = interleave_alone) {
    const environment &environment = session.environment;
    for (const direction &direction : pageable_directions(session.workspace))
        for (const std::size_t size : sizes) {
            if (size > session.workspace.largest) break;
            session.progress.show("pageable", beside + ", " + direction.name, size);
            const contender both[] = {raw_line(environment, direction, form::async, size),
                                      ferry_line(environment, direction, form::async, size)};
            const box copied = line(direction, size);
            verify_each(session.workspace, {&copied, 1}, both);
            const std::vector<samples> taken =
                contest(environment, std::span<const contender>(both), effort_of(session, size));
            const comparison times = compare(taken[0], taken[1]);
            result.rows.push_back({.labels = {beside, direction.name},
                                   .bytes = size,
                                   .times = times,
                                   .target = 1 / most_of(size, small)});
            result.numbers.lines.push_back(
                {{beside, direction.name, size_text(size)}, {times.raw_ns.p99 * 1e-3, times.ferry_ns.p99 * 1e-3}});
        }
}

case_result begin_result(const session &session, const char *note, const char *beside) {
    case_result result = session.begin({.note = note, .label_columns = {beside, "copy"}});
    result.numbers.label_columns = {beside, "copy", "size"};
    result.numbers.number_columns = {"raw p99 us", "ferry p99 us"};
    return result;
}

case_result run_pageable_busy(session &session) {
#if !defined(__linux__)
    static_cast<void>(session);
    return skipped("it starts processes as Linux does");
#else
    case_result result =
        begin_result(session,
                     "other processes compute meanwhile; raw: cuMemcpy*Async; ferry: ferry_copy_async; both until "
                     "cuStreamSynchronize has returned.\nThe median may be 1.5 times the driver's up to 1 MiB, and the "
                     "driver's beyond",
                     "processes");
    constexpr std::size_t sizes[] = {64 * KiB, MiB, 16 * MiB, 256 * MiB};
    const unsigned processors = std::thread::hardware_concurrency();
    for (const unsigned count : {0u, processors, 2 * processors}) {
        const computing_processes beside(count);
        measure_sizes(session, std::to_string(count), sizes, 1.5, result);
    }
    return result;
#endif
}

// Programs copy from time to time rather than continuously: processors and threads sleep in between.
case_result run_pageable_cold(session &session) {
    case_result result =
        session.begin({.note = "10 ms of sleep before each copy; raw: cuMemcpy*Async or cuMemcpy*; ferry: "
                               "ferry_copy_async or ferry_copy; until the copy is complete.\nTargets: 1.0, 1.3, 1.6 "
                               "and 1.8; for 1 MiB at most 0.97 of a raw call with the queries that ferry needs, "
                               "measured in the same rounds",
                       .label_columns = {"form", "copy"}});
    const environment &environment = session.environment;
    constexpr double targets[] = {1, 1.3, 1.6, 1.8};
    for (const form how : {form::async, form::sync})
        for (const direction &direction : pageable_directions(session.workspace))
            for (std::size_t i = 0; i < std::size(targets); ++i) {
                const std::size_t size = (i + 1) * MiB;
                if (size > session.workspace.largest) break;
                const char *const name = how == form::async ? "async" : "sync";
                session.progress.show("pageable", std::string("cold, ") + name + ", " + direction.name, size);
                const contender raw = raw_line(environment, direction, how, size);
                contender all[] = {raw, ferry_line(environment, direction, how, size),
                                   with_queries(environment, direction, how, size, raw)};
                const box copied = line(direction, size);
                verify_each(session.workspace, {&copied, 1}, {all, 2});
                for (contender &one : all)
                    one.prepare = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
                const std::vector<samples> taken =
                    interleave(all, session.is_quick ? effort{4, 8, 0.2e9} : effort{30, 60, 1.8e9});
                constexpr double least_share_of_limit = 0.97;
                const double limit = least_share_of_limit * compare(taken[0], taken[2]).ratio.median;
                result.rows.push_back({.labels = {name, direction.name},
                                       .bytes = size,
                                       .times = compare(taken[0], taken[1]),
                                       .target = size > MiB ? targets[i] : std::min(targets[i], limit)});
            }
    return result;
}

case_result run_pageable_busy_gpu(session &session) {
    if (const std::string why = why_no_computing(session.environment); !why.empty()) return skipped(why);
    case_result result = begin_result(
        session,
        "kernels that fill the device run back to back on another stream, 1.5 ms each, or one kernel all the time; "
        "raw: "
        "cuMemcpy*Async; ferry: ferry_copy_async;\nboth until cuStreamSynchronize has returned. The median "
        "may be 1.3 times the driver's up to 1 MiB, and the driver's beyond",
        "beside");
    constexpr std::size_t sizes[] = {64 * KiB, MiB, 16 * MiB, 128 * MiB};
    {
        const computing_device beside(session.environment);
        measure_sizes(session, "kernels", sizes, 1.3, result);
    }
    measure_sizes(session, "one kernel", sizes, 1.3, result, interleave_beside<persistent_kernel>);
    return result;
}

} // namespace
} // namespace of_pageable_busy

const bench_case pageable_busy_case = {"pageable-busy", "pageable copies while other processes use all processors",
                                       of_pageable_busy::run_pageable_busy};
const bench_case pageable_cold_case = {"pageable-cold", "pageable copies of 1 to 4 MiB, each after 10 ms of sleep",
                                       of_pageable_busy::run_pageable_cold};
const bench_case pageable_busy_gpu_case = {"pageable-busy-gpu", "pageable copies while kernels fill the device",
                                           of_pageable_busy::run_pageable_busy_gpu};

} // namespace bench
