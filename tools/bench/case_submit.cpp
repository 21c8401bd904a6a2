// submit: submission latency, the time that the calling thread needs to issue a copy without waiting for it.
#include "case.h"
#include "progress.h"
#include "units.h"

namespace bench {

namespace of_submit {
namespace {

// Consecutive calls without waiting: enough to measure, and too few to fill the driver's queue (500 calls did not fill
// it on an H200).
constexpr int burst_length = 200;

struct variant {
    bool is_short;          // ferry_copy_bytes_async, which has no memory kinds
    std::int32_t host_kind; // FERRY_KIND_*; ANY: of the device's memory too
    bool is_full;           // with all checks
    std::optional<double> target;

    bool is_any() const { return host_kind == FERRY_KIND_ANY; }
    const char *kind_text() const { return is_any() ? "ANY" : host_kind == FERRY_KIND_PINNED ? "PINNED" : "HOST"; }
};
constexpr variant variants[] = {
    {false, FERRY_KIND_PINNED, false, 0.95}, {false, FERRY_KIND_HOST, false, 0.90},
    {false, FERRY_KIND_ANY, false, 0.88},    {false, FERRY_KIND_HOST, true, {}},
    {false, FERRY_KIND_ANY, true, 0.85},     {true, FERRY_KIND_ANY, false, {}},
};

template <typename Call> contender issue(const char *name, const environment &environment, Call call) {
    return burst(name, burst_length, std::move(call), [&environment] { drain(environment); });
}

contender ferry_burst(const environment &environment, const direction &direction, std::size_t size,
                      const variant &variant) {
    ferry_instance *const ferry = (variant.is_full ? environment.full : environment.basic).get();
    const CUstream stream = environment.stream.get();
    if (variant.is_short)
        return issue("ferry_copy_bytes_async", environment,
                     [=, to = direction.destination.address, from = direction.source.address,
                      error = sized<ferry_error_info>()]() mutable {
                         check(ferry_copy_bytes_async(ferry, to, from, size, nullptr, stream, nullptr, &error),
                               "ferry_copy_bytes_async", error);
                     });
    ferry_copy_desc copy = describe(line(direction, size));
    for (ferry_place *const place : {&copy.source, &copy.destination})
        if (place->kind == FERRY_KIND_HOST) place->kind = variant.host_kind;
    if (variant.is_any()) {
        ferry_place_any(&copy.source, direction.source.address);
        ferry_place_any(&copy.destination, direction.destination.address);
    }
    return issue("ferry_copy_async", environment, [=, error = sized<ferry_error_info>()]() mutable {
        check(ferry_copy_async(ferry, &copy, nullptr, stream, nullptr, &error), "ferry_copy_async", error);
    });
}

// The raw call, the reference, then ferry's variants. All run in one loop on the same buffers.
std::vector<contender> all_contenders(const environment &environment, const direction &direction, std::size_t size) {
    std::vector<contender> contenders;
    contenders.push_back(issue("cuMemcpy3DAsync", environment, [&environment, copy = lower(line(direction, size))] {
        check(environment.cu.cuMemcpy3DAsync(&copy, environment.stream.get()), "cuMemcpy3DAsync");
    }));
    contenders.push_back(issue("cuMemcpy*Async", environment, [&environment, &direction, size] {
        raw_copy_async(environment, direction, size, environment.stream.get());
    }));
    for (const variant &variant : variants)
        contenders.push_back(ferry_burst(environment, direction, size, variant));
    return contenders;
}

void measure_direction(session &session, const direction &direction, std::size_t size, row_list &rows) {
    const std::vector<contender> contenders = all_contenders(session.environment, direction, size);
    const box copied = line(direction, size);
    verify_each(session.workspace, {&copied, 1}, contenders);
    const effort effort = session.is_quick ? bench::effort{4, 50, 0.5e9} : bench::effort{20, 400, 4e9};
    const std::vector<samples> taken = interleave(contenders, effort);
    for (std::size_t i = 0; i < std::size(variants); ++i) {
        const variant &variant = variants[i];
        rows.push_back({.labels = {direction.name, variant.is_short ? "bytes" : "descriptor", variant.kind_text(),
                                   variant.is_full ? "full" : "basic"},
                        .bytes = size,
                        .times = compare(taken[0], taken[2 + i]),
                        .target = variant.target,
                        .reference_ns = summarise(taken[1])});
    }
}

case_result run_submit(session &session) {
    case_result result = session.begin(
        {.note = "a sample is a burst of 200 calls without waiting; host memory is pinned; raw: cuMemcpy3DAsync; 1D "
                 "raw: cuMemcpy*Async; ferry: ferry_copy_async, and for 'bytes' "
                 "ferry_copy_bytes_async",
         .label_columns = {"copy", "form", "kinds", "checks"},
         .reference_column = "1D raw"});
    const std::vector<direction> directions = pinned_directions(session.workspace);
    for (const std::size_t size : {64, 64 << 10})
        for (const direction &direction : directions) {
            session.progress.show("submit", direction.text(), size);
            measure_direction(session, direction, size, result.rows);
        }
    return result;
}

} // namespace
} // namespace of_submit

const bench_case submit_case = {"submit", "submission latency: the cost of issuing a small copy, not of completing it",
                                of_submit::run_submit};

} // namespace bench
