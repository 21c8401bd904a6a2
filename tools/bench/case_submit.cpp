// submit: submission latency, the time that the calling thread needs to issue a copy without waiting for it.
#include "case.h"
#include "contract_queries.h"
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

// ferry's call cannot be faster than the raw call with the queries that the statement of the kinds leaves to ferry. Where
// that limit is above the target, this share of the limit is the target.
constexpr double least_share_of_limit = 0.97;
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

// The raw call with the queries without which ferry's call could not know what it must: see contract_queries.h.
contender limit_of(const environment &environment, const direction &direction, std::size_t size,
                   const variant &variant) {
    std::vector<std::uint64_t> asked;
    for (const buffer *const end : {&direction.source, &direction.destination})
        if (variant.is_any() || variant.is_full || (variant.host_kind == FERRY_KIND_HOST && end->is_host()))
            asked.push_back(end->address);
    return issue("queries and cuMemcpy3DAsync", environment,
                 [&environment, asked, is_full = variant.is_full, copy = lower(line(direction, size))] {
                     query_context(environment);
                     for (const std::uint64_t address : asked)
                         is_full ? query_range(environment, address) : query_kind(environment, address);
                     check(environment.cu.cuMemcpy3DAsync(&copy, environment.stream.get()), "cuMemcpy3DAsync");
                 });
}

// The raw call, the reference, ferry's variants, then their limits. All run in one loop on the same buffers.
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
    for (const variant &variant : variants)
        contenders.push_back(limit_of(environment, direction, size, variant));
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
        const double limit = compare(taken[0], taken[2 + std::size(variants) + i]).ratio.median;
        rows.push_back({.labels = {direction.name, variant.is_short ? "bytes" : "descriptor", variant.kind_text(),
                                   variant.is_full ? "full" : "basic"},
                        .bytes = size,
                        .times = compare(taken[0], taken[2 + i]),
                        .target = variant.target
                                      ? std::optional(std::min(*variant.target, least_share_of_limit * limit))
                                      : std::nullopt,
                        .reference_ns = summarise(taken[1])});
    }
}

case_result run_submit(session &session) {
    case_result result = session.begin(
        {.note =
             "a sample is a burst of 200 calls without waiting; host memory is pinned; raw: cuMemcpy3DAsync; 1D "
             "raw: cuMemcpy*Async; ferry: ferry_copy_async, and for 'bytes' "
             "ferry_copy_bytes_async.\nTargets: 0.95 PINNED, 0.9 HOST, 0.88 ANY, 0.85 full, but at most 0.97 of a raw "
             "call with the queries that the kinds leave to ferry, measured in the same rounds",
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
